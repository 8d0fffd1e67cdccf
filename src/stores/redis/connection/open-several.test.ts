/** Opening a store of several partitions, one of which cannot be entered. */
import { expect, test } from "vitest";
import { createPlacement } from "../../../model/routing/placement.ts";
import type { Store } from "../../../store/store.ts";
import { aClaim, aJob } from "../../../../test/support/builders.ts";
import { until } from "../../../../test/support/until.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";

const redis = useOwnRedis();
const { open } = redis;
const partitions = 4;
const placement = createPlacement(partitions);

const idIn = (number: number): string => {
  for (let n = 0; ; n++) if (placement.ofId(`job-${n}`) === number) return `job-${n}`;
};
const submitTo = (store: Store, number: number): ReturnType<Store["submit"]> =>
  store.submit([{ jobs: [aJob({ id: idIn(number) })], isRepeat: false }]);
const page = { filter: {}, max: 10, scanMax: 100, cursor: null };

/** A store with a job in each partition, one of which has a key of another program since. */
async function damage(number: number): Promise<void> {
  const store = await open({ partitions });
  for (let each = 0; each < partitions; each++) await submitTo(store, each);
  await store.close();
  await redis.admin.del(`{${redis.prefix}:${number}}:lease`);
  await redis.admin.set(`{${redis.prefix}:${number}}:lease`, "another program's");
}

for (const damaged of [0, 2])
  test(`opens without partition ${damaged}, whose keys are damaged, and it comes in when they are healed`, async () => {
    await damage(damaged);
    const store = await open();
    expect(store.partitions).toBe(partitions);
    const { jobs, missing } = await store.findJobs(page);
    const others = [0, 1, 2, 3].filter((number) => number !== damaged);
    expect(jobs.map(({ id }) => id).sort()).toEqual(others.map(idIn).sort());
    expect(missing).toEqual([damaged]);
    expect(store.missing?.()).toMatchObject([{ number: damaged, error: { code: "not-a-store" } }]);
    const { warnings } = await store.describe();
    expect(warnings).toHaveLength(1);
    await expect(submitTo(store, damaged)).rejects.toMatchObject({ code: "not-a-store" });

    const run: string[] = [];
    const claimSome = async (): Promise<void> => {
      const claimed = await store.claim(aClaim());
      run.push(...claimed.jobs.map(({ id }) => id));
    };
    await until("the jobs of the others run", async () => {
      await claimSome();
      return run.length === others.length;
    });
    expect(run).not.toContain(idIn(damaged));

    await redis.admin.del(`{${redis.prefix}:${damaged}}:lease`);
    await until("the job of the healed partition runs", async () => {
      await claimSome();
      return run.includes(idIn(damaged));
    });
    expect(await store.findJobs(page)).not.toHaveProperty("missing");
  });

test("fails where a partition is of a newer layout, and says which", async () => {
  await (await open({ partitions })).close();
  await redis.admin.hset(`{${redis.prefix}:2}:meta`, "version", "99");
  await expect(open()).rejects.toMatchObject({
    code: "schema-newer",
    message: expect.stringMatching(/^Partition 2 of 4 cannot be opened\. /),
  });
});

test("makes no partition while the first is damaged", async () => {
  await (await open()).close();
  await redis.admin.del(`{${redis.prefix}:0}:lease`);
  await redis.admin.set(`{${redis.prefix}:0}:lease`, "another program's");
  await expect(open()).rejects.toMatchObject({ code: "not-a-store" });
  await expect(open({ partitions: 2 })).rejects.toMatchObject({ code: "partitions-differ" });
  expect(await redis.admin.keys(`{${redis.prefix}:[1-9]*`)).toEqual([]);
});
