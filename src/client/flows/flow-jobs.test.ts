// Flows and their members next to plain jobs: what is shown of them, and what the verbs of jobs do to them.
import { describe, expect, test } from "vitest";
import { Steps, statesOf, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";
import { flow } from "../../engine/flows/flow.ts";
import type { Flow } from "../../engine/flows/flow.ts";
import type { MillraceEvent } from "../../model/events/event.ts";
import type { FlowRun } from "./flows.ts";

const v = useVirtualMill();

async function begin(given: Flow): Promise<[FlowRun, Steps]> {
  const steps = new Steps();
  await v.run(steps.work(v.mill));
  const run = await v.run(v.mill.submit(given, { tags: ["mine"] }));
  await v.advance(500);
  return [run, steps];
}

/** first, then second (fails), then third; and a race next to them. */
function failing(): Flow {
  const given = flow("failing");
  const first = given.add("first", step, "1", { tags: ["own"] });
  const second = given.add("second", step, "fail", { after: first });
  given.add("third", step, "3", { after: second });
  given.race("race", [step.with("a"), step.with("hold")]);
  return given;
}

describe("what people see", () => {
  test("lists, counts and queues show members as jobs of their flow, and neither flows nor parts as jobs", async () => {
    const [run] = await begin(failing());
    const { jobs } = await v.run(v.mill.jobs.list());
    expect(jobs.map(({ id }) => id).toSorted()).toEqual(
      ["first", "race.0", "race.1", "second", "third"].map((node) => `${run.id}.${node}`),
    );
    expect(jobs.find(({ id }) => id.endsWith(".first"))).toMatchObject({
      ...{ queue: "default", tags: ["own"], flow: { id: run.id, node: "first" } },
    });
    expect(await v.run(v.mill.jobs.counts())).toEqual({
      default: { completed: 2, failed: 1, skipped: 1, cancelled: 1 },
    });
    expect((await v.run(v.mill.queues.list())).map(({ queue }) => queue)).toEqual(["default"]);
    expect(await v.run(v.mill.jobs.get(run.id))).toBeNull();
    expect((await v.run(v.mill.metrics.prometheus())).includes("\u0007")).toBe(false);
  });

  test("a node waits for a node that a handler added before it, and shows it", async () => {
    const adds = job<string>("adds");
    const given = flow("grown");
    given.add("end", step, "end", { after: given.add("first", adds, "") });
    await v.run(
      v.mill.work([
        handler(
          adds,
          async ({ flow: own }) => void own?.add("mid", step, "mid", { before: "end", delay: "1h" }),
        ),
      ]),
    );
    const [run] = await begin(given);
    const end = (await v.run(run.nodes())).find(({ name }) => name === "end");
    expect(end).toMatchObject({ state: "blocked", join: { needs: 2, came: 1 } });
    expect(end?.after.map(({ name }) => name)).toEqual(["first", "mid"]);
    const why = 'It waits for the success of "mid" (scheduled); it needs all 2, and 1 has come.';
    expect(await v.run(v.mill.explain(`${run.id}.end`))).toMatchObject({ why });
  });

  test("a node that a replay has freed shows its join as met", async () => {
    const [run, steps] = await begin(failing());
    const joinOf = async (): Promise<unknown> =>
      (await v.run(run.nodes())).find(({ name }) => name === "second")?.join;
    expect(await joinOf()).toEqual({ needs: 1, came: 1 });
    steps.failing.clear();
    await v.run(run.retry());
    await v.run(run.result());
    expect(await joinOf()).toEqual({ needs: 1, came: 1 });
  });

  test("flows are listed by name, state and tag", async () => {
    const [run] = await begin(failing());
    const other = flow("other");
    other.add("hold", step, "hold");
    await v.run(v.mill.submit(other));
    const named = async (query: object): Promise<readonly string[]> =>
      (await v.run(v.mill.flows.list(query))).flows.map(({ name }) => name);
    expect(await named({})).toEqual(["other", "failing"]);
    expect(await named({ name: "failing" })).toEqual(["failing"]);
    expect(await named({ state: "running" })).toEqual(["other"]);
    expect(await named({ state: ["failed", "cancelled"] })).toEqual(["failing"]);
    expect(await named({ tag: "mine" })).toEqual(["failing"]);
    for (const wrong of [
      { state: "ready" },
      { state: ["no"] },
      { name: 1 },
      { tag: [] },
      { cursor: "x" },
      { limit: 0 },
    ])
      await expect(named(wrong)).rejects.toMatchObject({ code: "invalid-option" });
    expect(await v.run(v.mill.flows.get(`${run.id}.race`))).toBeNull();
  });

  test("events name the flow and its members with their place, and not its parts", async () => {
    const events: MillraceEvent[] = [];
    const stream = v.mill.events();
    const listening = (async () => {
      for await (const event of stream) events.push(event);
    })();
    const [run] = await begin(failing());
    await v.run(stream.return!().then(() => listening));
    const ofFlow = events.filter(({ kind }) => kind.startsWith("flow-"));
    expect(ofFlow).toMatchObject([
      { kind: "flow-submitted", flowId: run.id, name: "failing", jobId: null, queue: null },
      {
        kind: "flow-failed",
        flowId: run.id,
        reason: "node-failed",
        counts: { total: 4, live: 0, failed: 1 },
      },
    ]);
    const told = events.filter(({ jobId }) => jobId === `${run.id}.second`);
    expect(told.map(({ kind }) => kind)).toEqual(["submitted", "freed", "claimed", "started", "failed"]);
    expect(told[0]).toMatchObject({ flow: { id: run.id, node: "second" }, state: "blocked" });
    expect(events.filter(({ jobId }) => jobId === run.id || jobId === `${run.id}.race`)).toEqual([]);
    expect(events.some(({ kind }) => (kind as string) === "passed-on")).toBe(false);
  });

  test("events are filtered by flow, and by kinds that only flows have", async () => {
    const [run] = await begin(failing());
    const other = flow("other");
    other.add("a", step, "a");
    const second = await v.run(v.mill.submit(other));
    await v.run(second.result());
    const kindsOf = async (options: object, last: string): Promise<readonly string[]> => {
      const kinds: string[] = [];
      for await (const { kind } of v.mill.events({ from: "start", ...options })) {
        kinds.push(kind);
        if (kind === last) break;
      }
      return kinds;
    };
    const ofOther = await v.run(kindsOf({ flow: second.id }, "flow-completed"));
    expect(ofOther.toSorted()).toEqual([
      ...["claimed", "completed", "flow-completed", "flow-submitted", "started", "submitted"],
    ]);
    const ends = { kinds: ["flow-failed", "flow-completed"] };
    expect(await v.run(kindsOf(ends, "flow-completed"))).toEqual(["flow-failed", "flow-completed"]);
    expect(await v.run(kindsOf({ kinds: ["completed"], job: `${run.id}.first` }, "completed"))).toHaveLength(
      1,
    );
  });

  test("explain says which parents a node waits for, what its join wants, and what a flow waits for", async () => {
    const given = flow("waiting");
    const [one, two] = [given.add("one", step, "hold"), given.add("two", step, "hold")];
    const three = given.add("three", step, "3");
    given.add("all", step, "all", { after: [one, three] });
    given.add("any two", step, "any", { always: [one, two, three], join: 2 });
    given.add("rescue", step, "r", { afterFailureOf: one });
    const [run, steps] = await begin(given);
    const why = async (node: string): Promise<string | undefined> =>
      (await v.run(v.mill.explain(node === "" ? run.id : `${run.id}.${node}`)))?.why;
    expect(await why("all")).toBe(
      'It waits for the success of "one" (running); it needs all 2, and 1 has come.',
    );
    expect(await why("any two")).toBe(
      'It waits for the end of "one" (running) and the end of "two" (running); it needs 2 of 3, and 1 has come.',
    );
    expect(await why("rescue")).toBe('It waits for the failure of "one" (running).');
    expect(await why("")).toBe(
      'It waits for 5 of its 6 nodes; those that wait for no other are "one" (running) and "two" (running).',
    );
    expect((await v.run(v.mill.explain(run.id)))?.state).toBe("running");
    steps.letGo();
    await v.run(run.result());
    expect(await why("")).toBe("It has completed.");
  });
});

describe("verbs of jobs", () => {
  test("cancelling a flow cancels all of its members", async () => {
    const given = flow("held");
    given.add("next", step, "n", { after: given.add("first", step, "hold") });
    const [run] = await begin(given);
    expect(await v.run(v.mill.jobs.cancel(run.id, "enough"))).toBe("signalled");
    await v.advance(1000);
    expect(await v.run(run.view())).toMatchObject({ state: "cancelled", reason: "enough" });
    expect(await v.run(v.mill.jobs.cancel(run.id))).toBe("finished");
  });

  test("cancelling a member skips the nodes after it", async () => {
    const given = flow("held");
    given.add("next", step, "n", { after: given.add("first", step, "hold") });
    const [run] = await begin(given);
    expect(await v.run(v.mill.jobs.cancel(`${run.id}.first`))).toBe("signalled");
    await v.advance(1000);
    expect(await v.run(statesOf(run))).toEqual({ first: "cancelled", next: "skipped" });
    expect((await v.run(run.view())).state).toBe("completed");
  });

  test("a waiting member can be edited, but its priority and time cannot be changed before it is freed", async () => {
    const given = flow("edited");
    given.add("next", step, "n", { after: given.add("first", step, "hold") });
    const [run, steps] = await begin(given);
    const next = `${run.id}.next`;
    await expect(v.run(v.mill.jobs.edit(next, { priority: 3 }))).rejects.toMatchObject({
      ...{ code: "job-changed", message: expect.stringMatching(/once it is freed/) as string },
    });
    await expect(v.run(v.mill.jobs.reschedule(next, { delay: "1h" }))).rejects.toMatchObject({
      code: "job-changed",
    });
    await v.run(v.mill.jobs.edit(next, { input: "edited", headers: { by: "hand" } }));
    steps.letGo();
    expect(await v.run(run.result())).toEqual({ next: "edited" });
    expect((await v.run(v.mill.jobs.get(next)))?.headers).toEqual({ by: "hand" });
  });

  test("a retry of a member, of a flow or by a filter opens the flow again", async () => {
    const [run, steps] = await begin(failing());
    steps.failing.clear();
    expect(await v.run(v.mill.jobs.retry(`${run.id}.second`))).toBe("retried");
    expect((await v.run(run.view())).state).toBe("running");
    expect(await v.run(v.mill.jobs.retry(`${run.id}.third`))).toBe("unfinished");
    expect(await v.run(run.result())).toMatchObject({ third: "3" });
    expect(await v.run(v.mill.jobs.retry(run.id))).toBe("unfinished");

    steps.failing.add("fail");
    const [again] = [await v.run(v.mill.submit(failing())), await v.advance(500)];
    expect((await v.run(again.view())).state).toBe("failed");
    steps.failing.clear();
    const answers = await v.run(v.mill.jobs.retry({ state: "failed", name: "step" }));
    expect(answers).toMatchObject({ retried: 1, "flow-member": 0 });
    expect(await v.run(again.result())).toMatchObject({ third: "3" });
  });

  test("a retry of a member takes neither an input nor a time", async () => {
    const [run] = await begin(failing());
    expect(await v.run(v.mill.jobs.retry(`${run.id}.second`, { input: "x" }))).toBe("flow-member");
    expect(await v.run(v.mill.jobs.retry({ state: "failed" }, { perSecond: 5 }))).toMatchObject({
      ...{ retried: 0, "flow-member": 1 },
    });
  });

  test("delete refuses members and live flows, and deletes an ended flow with all of its members", async () => {
    const [run, steps] = await begin(failing());
    expect(await v.run(v.mill.jobs.delete(`${run.id}.first`))).toBe("flow-member");
    expect(await v.run(v.mill.jobs.delete({ queue: "default" }))).toMatchObject({
      deleted: 0,
      "flow-member": 5,
    });
    const held = flow("held");
    held.add("hold", step, "hold");
    const live = await v.run(v.mill.submit(held));
    await v.advance(100);
    expect(await v.run(v.mill.jobs.delete(live.id))).toBe("running");
    expect(await v.run(v.mill.jobs.delete(run.id))).toBe("deleted");
    await v.advance(1000);
    expect(await v.run(v.mill.flows.get(run.id))).toBeNull();
    expect((await v.run(v.mill.jobs.list())).jobs.map(({ flow: place }) => place?.id)).toEqual([live.id]);
    steps.letGo();
  });

  test("a flow is pruned as a whole, never its members alone", async () => {
    const given = flow("short");
    given.add("next", step, "2", { after: given.add("first", step, "1", { retention: { completed: 0 } }) });
    const steps = new Steps();
    await v.run(steps.work(v.mill));
    const run = await v.run(v.mill.submit(given, { retention: { completed: "1h" } }));
    await v.run(run.result());
    await v.advance(50 * 60_000);
    expect(await v.run(statesOf(run))).toEqual({ first: "completed", next: "completed" });
    await v.advance(30 * 60_000);
    expect(await v.run(v.mill.flows.get(run.id))).toBeNull();
    expect((await v.run(v.mill.jobs.list())).jobs).toEqual([]);
  });

  test("a handle of a flow says how to wait for a flow, and a flow cannot be edited as a job", async () => {
    const [run, steps] = await begin(failing());
    await expect(v.run(v.mill.handle(run.id).result())).rejects.toMatchObject({
      code: "other-job",
      message: expect.stringContaining("mill.flows.run"),
    });
    await expect(v.run(v.mill.flows.run(`${run.id}.first`).result())).rejects.toMatchObject({
      code: "flow-not-found",
    });
    await expect(v.run(v.mill.jobs.edit(run.id, { priority: "high" }))).rejects.toMatchObject({
      code: "job-not-found",
    });
    steps.letGo();
  });

  test("every call for a flow refuses a part of one", async () => {
    const given = flow("parted");
    given.group("pair", [step.with("a"), step.with("b")]);
    const [run, steps] = await begin(given);
    steps.letGo();
    await v.run(run.result());
    const id = `${run.id}.pair`;
    const part = v.mill.flows.run(id);
    const asks: (() => Promise<unknown>)[] = [
      () => part.result(),
      () => part.nodes(),
      () => part.cancel(),
      () => part.retry(),
    ];
    for (const ask of [...asks, () => part.view()])
      await expect(v.run(ask())).rejects.toMatchObject({ code: "flow-not-found" });
    await expect(v.run(v.mill.handle(id).result())).rejects.toMatchObject({
      code: "other-job",
      message: expect.stringContaining("is a part of a flow"),
    });
  });
});
