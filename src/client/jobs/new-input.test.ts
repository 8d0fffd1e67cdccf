import { describe, expect, test } from "vitest";
import { z } from "zod";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { flow } from "../../engine/flows/flow.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";

const v = useVirtualMill();

const input = z.object({ n: z.number() });
const checked = job("checked", { input, retry: { attempts: 1 } });
/** The same job as a process sees it that does not have the schema. */
const unchecked = job<unknown>("checked", { retry: { attempts: 1 } });
const wrong = { n: "four" };
const refused = {
  code: "invalid-input",
  outcome: "did-not-happen",
  message: expect.stringContaining('The input of "checked" does not match its schema: n: '),
};
const failing = handler(checked, ({ input: { n } }) => {
  if (n < 100) throw new Error("no");
});

describe("the input that is given to a job that exists", () => {
  test("edit and runNow refuse what the schema of an enqueued job refuses, and write nothing", async () => {
    const { id } = await v.run(v.mill.enqueue(checked, { n: 1 }, { delay: "1h" }));
    const before = await v.run(v.mill.jobs.get(id));
    await expect(v.run(v.mill.jobs.edit(id, { input: wrong, priority: "high" }))).rejects.toMatchObject(
      refused,
    );
    await expect(v.run(v.mill.jobs.runNow(id, { input: wrong }))).rejects.toMatchObject(refused);
    expect(await v.run(v.mill.jobs.get(id))).toEqual(before);
    await v.run(v.mill.jobs.edit(id, { input: { n: 2 } }));
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ input: { n: 2 } });
  });

  test("retry refuses what the schema of a handled job refuses, for one job and for a filter", async () => {
    const { id } = await v.run(v.mill.enqueue(unchecked, { n: 1 }));
    await v.run(v.mill.work([failing]));
    await v.run(
      v.mill
        .handle(id)
        .result()
        .catch(() => undefined),
    );
    const { jobs } = v.mill;
    for (const target of [id, { tag: "none" }, { name: "checked" }, { job: checked }, { job: unchecked }]) {
      const isSeen = typeof target === "string" || !("tag" in target);
      const retried = v.run(jobs.retry(target as never, { input: wrong }));
      if (isSeen) await expect(retried).rejects.toMatchObject(refused);
      else expect(await retried).toMatchObject({ retried: 0 });
    }
    await expect(v.run(jobs.retry({ state: "failed" }, { input: wrong }))).rejects.toMatchObject({
      code: "invalid-input",
    });
    expect(await v.run(jobs.get(id))).toMatchObject({ state: "failed", input: { n: 1 }, attempt: 1 });
    expect(await v.run(jobs.retry(id, { input: { n: 100 } }))).toBe("retried");
    await v.run(v.mill.handle(id).result());
  });

  test("the definition of the filter is enough", async () => {
    const { id } = await v.run(v.mill.enqueue(unchecked, wrong));
    await v.run(v.mill.jobs.cancel(id));
    const cancelled = { state: "cancelled", name: "checked" } as const;
    const { name: _name, ...others } = cancelled;
    await expect(
      v.run(v.mill.jobs.retry({ ...others, job: checked }, { input: wrong })),
    ).rejects.toMatchObject(refused);
    // Without the definition nobody here knows the schema.
    expect(await v.run(v.mill.jobs.retry(cancelled, { input: wrong }))).toMatchObject({ retried: 1 });
  });

  test("a process that does not know the schema takes the input, and the worker refuses it", async () => {
    const { id } = await v.run(v.mill.enqueue(unchecked, { n: 1 }, { delay: "1h" }));
    await v.run(v.mill.jobs.edit(id, { input: wrong }));
    expect(await v.run(v.mill.jobs.runNow(id, { input: wrong }))).toBe("woken");
    await v.run(v.mill.work([failing]));
    await expect(v.run(v.mill.handle(id).result())).rejects.toMatchObject({ code: "job-failed" });
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ state: "failed", reason: "invalid-input" });
  });

  test("the input of a node that other nodes complete is left to the worker", async () => {
    const first = job<null, number>("first");
    const built = flow("sum");
    const one = built.add("one", first, null);
    built.add("two", checked, { n: one.result });
    const run = await v.run(v.mill.submit(built));
    const id = `${run.id}.two`;
    await v.run(v.mill.jobs.edit(id, { input: { n: null } }));
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ input: { n: null } });
  });
});
