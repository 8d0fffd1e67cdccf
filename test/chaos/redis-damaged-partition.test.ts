/**
 * One of four partitions has a key of another program, whichever: new processes open the store all the same, those of
 * the command line and workers with settings that they write into the store.
 */
import { expect, test } from "vitest";
import { openMillrace } from "../../src/open.ts";
import { say, sayJson } from "../cli/run-millrace.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";

const redis = useOwnRedis();

for (const damaged of [0, 1, 2, 3])
  test(`list, counts, duties, doctor and an opening with a retention work without partition ${damaged}`, async () => {
    const store = `${redis.server.url}?prefix=${redis.prefix}`;
    const enqueue = ["enqueue", "send", "1", "--store", `${store}&partitions=4`];
    for (let job = 0; job < 12; job++) await sayJson([...enqueue, "--id", `job-${job}`]);
    const lease = `{${redis.prefix}:${damaged}}:lease`;
    await redis.admin.del(lease);
    await redis.admin.set(lease, "another program's");

    expect(await sayJson(["list", "--store", store])).toMatchObject({ missing: [damaged] });
    for (const command of ["counts", "duties"])
      expect(await say([command, "--store", store])).toMatchObject({ code: 0 });
    const { code, out } = await say(["doctor", "--store", store]);
    expect(out).toMatch(new RegExp(`^FINDING +partitions: .*${damaged}`, "m"));
    expect(code).toBe(1);
    const mill = redis.closeLater(await openMillrace(store, { retention: { completed: "90d" } }));
    expect(await mill.jobs.list()).toMatchObject({ missing: [damaged] });
  });
