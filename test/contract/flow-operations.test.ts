/** What a caller does with a whole flow, on every store: submits it again, cancels and deletes it, no worker near. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { flow } from "../../src/engine/flows/flow.ts";
import type { FailedFlow } from "../../src/engine/flows/failed-flow.ts";
import type { Flow } from "../../src/engine/flows/flow.ts";
import { limit } from "../../src/engine/limits/limit-definition.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { MillraceError } from "../../src/model/error.ts";
import type { FailureMode } from "../../src/model/flow/graph.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { eachStore } from "../support/servers/each-store.ts";
import { Steps, join, statesOf, step } from "../support/flow-steps.ts";
import { hangMs } from "../support/hang-ms.ts";
import { millOn } from "../support/mill-on.ts";

const coded = (code: string) => expect.objectContaining({ code });

function diamond(input = "1"): Flow {
  const given = flow("diamond");
  const first = given.add("first", step, input);
  const [left, right] = [given.add("left", step, "2", { after: first }), given.add("right", step, "3")];
  given.add("last", join, { parts: [left.result, right.result] }, { tags: ["own"] });
  return given;
}

describe.each(eachStore())("%s", (_title, open) => {
  let store: Store;
  let mill: Millrace;
  beforeEach(async () => {
    store = await open();
    mill = millOn(store);
  });
  afterEach(async () => void (await mill.close()));

  /** Gives up a call that fails soon. */
  const brief = (): Millrace => millOn(store, { giveUp: 100 });
  const counts = async (): Promise<Readonly<Record<string, number>>> => {
    const { jobs } = await store.findJobs({ filter: {}, max: 100, scanMax: 1000, cursor: null });
    return {
      flows: jobs.filter(({ flow: of }) => of === null).length,
      members: jobs.filter(({ flow: of }) => of !== null).length,
    };
  };

  describe("a repeated submit makes no second flow", () => {
    test("an unknown outcome names the id of the flow alone, and repeatOf answers the flow that was made", async () => {
      const submit = store.submit.bind(store);
      store.submit = async (units) => {
        await submit(units);
        throw new MillraceError("outcome-unknown", "the reply was lost");
      };
      const error = (await brief()
        .submit(diamond())
        .catch((reason: unknown) => reason)) as MillraceError;
      store.submit = submit;
      expect(error).toMatchObject({ code: "outcome-unknown", outcome: "unknown", ids: [expect.any(String)] });
      const again = await mill.submit(diamond(), { repeatOf: error.ids![0]! });
      expect([again.id, again.how]).toEqual([error.ids![0], "existing"]);
      expect(await counts()).toEqual({ flows: 1, members: 4 });
    });

    test("repeatOf makes the flow under its id if the first submit did not happen", async () => {
      const submit = store.submit.bind(store);
      store.submit = () => Promise.reject(new MillraceError("outcome-unknown", "nobody knows"));
      const error = (await brief()
        .submit(diamond())
        .catch((reason: unknown) => reason)) as MillraceError;
      store.submit = submit;
      const again = await mill.submit(diamond(), { repeatOf: error.ids![0]! });
      expect([again.id, again.how]).toEqual([error.ids![0], "created"]);
      await new Steps().work(mill);
      expect(await again.result()).toEqual({ last: "2+3" });
    });

    test("a key makes one flow, for many callers at once and after it has ended", async () => {
      const other = millOn(store);
      const runs = await Promise.all(
        [mill, other, mill].map((each) => each.submit(diamond(), { key: "October" })),
      );
      expect(runs.map(({ how }) => how)).toSatisfy(
        (hows: string[]) => hows.filter((how) => how === "created").length === 1,
      );
      expect(new Set(runs.map(({ id }) => id)).size).toBe(1);
      await new Steps().work(mill);
      expect(await mill.flows.keyed("October").result()).toEqual({ last: "2+3" });
      const late = await mill.submit(diamond(), { key: "October" });
      expect([late.id, late.how]).toEqual([runs[0]!.id, "existing"]);
      expect(await late.view()).toMatchObject({ state: "completed", key: "October" });
      expect(await counts()).toEqual({ flows: 1, members: 4 });
    });

    test("a key with another flow is refused, and another key makes another flow", async () => {
      await mill.submit(diamond(), { key: "October" });
      await expect(mill.submit(diamond("other"), { key: "October" })).rejects.toThrow(coded("id-conflict"));
      expect((await mill.submit(diamond(), { key: "November" })).how).toBe("created");
      expect(await counts()).toEqual({ flows: 2, members: 8 });
    });

    test("a key can be used again once its flow was deleted, also while members of that one are left", async () => {
      const run = await mill.submit(diamond(), { key: "October" });
      const worker = await new Steps().work(mill);
      await run.result();
      await worker.stop();
      const [record] = await store.readJobs([run.id]);
      // The flow alone, as a prune does it: its members are deferred work.
      await store.changeIf([
        {
          id: run.id,
          cases: [
            { guard: { states: ["completed"], rev: record!.rev }, next: { to: "deleted", event: "deleted" } },
          ],
        },
      ]);
      const again = await mill.submit(diamond(), { key: "October" });
      expect(again.how).toBe("created");
      await new Steps().work(mill);
      expect(await again.result()).toEqual({ last: "2+3" });
      expect(await counts()).toEqual({ flows: 1, members: 4 });
    });
  });

  describe("a handler submits a flow with the end of its job", () => {
    const start = job<string>("start", { retry: { attempts: 2, backoff: 1 } });

    test("the flow is made once by a job that is tried twice, and none by one that fails", async () => {
      const ids: string[] = [];
      await mill.work([
        handler(start, async ({ input, attempt, submit, whenFailed }) => {
          ids.push(submit(diamond(input), { tags: ["started"] }));
          whenFailed.submit(diamond("lost"), { tags: ["lost"] });
          if (attempt === 1 || input === "never") throw new Error("again");
        }),
      ]);
      await new Steps().work(mill);
      await mill.enqueue(start, "1").then((handle) => handle.result());
      expect(await mill.flows.run(ids.at(-1)!).result()).toEqual({ last: "2+3" });
      expect(await counts()).toEqual({ flows: 2, members: 4 });
      const [made] = (await mill.flows.list({ tag: "started" })).flows;
      expect(made).toMatchObject({ id: ids.at(-1), name: "diamond", state: "completed" });
      const lost = await mill.enqueue(start, "never");
      await expect(lost.result()).rejects.toThrow(coded("job-failed"));
      expect((await mill.flows.list({ tag: "lost" })).flows).toHaveLength(1);
      expect((await mill.flows.list({ tag: "started" })).flows).toHaveLength(1);
    });

    test("with a key it meets the flow that is there; other nodes under that key fail the attempt", async () => {
      await mill.work([
        handler(start, async ({ input, submit }) => void submit(diamond(input), { key: "{one} October" })),
      ]);
      const begin = (input: string) =>
        mill.enqueue(start, input, { id: `{one} ${input}`, retry: { attempts: 1 } });
      await (await begin("1")).result();
      await (await begin("1 again")).result().catch(() => null);
      await mill.submit(diamond("1"), { key: "{one} October" });
      expect(await counts()).toMatchObject({ members: 4 });
      expect((await mill.jobs.get("{one} 1 again"))?.state).toBe("failed");
    });

    test("an invalid graph and a repeatOf are refused at the call", async () => {
      const refused: unknown[] = [];
      await mill.work([
        handler(start, async ({ submit }) => {
          const circle = flow("circle");
          circle.add("a", step, "1", { after: "b" });
          circle.add("b", step, "1", { after: "a" });
          for (const call of [() => submit(circle), () => submit(diamond(), { repeatOf: "x" } as object)])
            try {
              call();
            } catch (error) {
              refused.push((error as MillraceError).code);
            }
        }),
      ]);
      await (await mill.enqueue(start, "1")).result();
      expect(refused).toEqual(["invalid-flow", "invalid-option"]);
      expect(await counts()).toEqual({ flows: 1, members: 0 });
    });
  });

  describe("a schedule makes flows", () => {
    const ticks: (Date | null | undefined)[] = [];
    const dated = job<string, string>("dated");
    const daily = (): Flow => {
      const given = flow("daily", { failureMode: "collect" });
      const first = given.add("first", dated, "1", { tags: ["own"] });
      given.group("pair", [step.with("2"), step.with("fail")], { after: first, tolerate: 1 });
      given.add("later", step, first.result, { after: "pair" });
      return given;
    };
    const work = async (): Promise<void> => {
      ticks.length = 0;
      await new Steps().work(mill);
      await mill.work([handler(dated, async ({ input, schedule: by }) => (ticks.push(by?.tick), input))]);
    };

    test("each tick makes one, whose nodes know the tick, and a run by hand makes one too", async () => {
      await work();
      const defined = await mill.schedule("daily", daily(), { every: "1s", limit: 2, tags: ["scheduled"] });
      expect(defined).toMatchObject({ status: "active", job: null, flow: { name: "daily", nodes: 5 } });
      await vi.waitFor(async () => expect((await mill.schedules.get("daily"))?.fired).toBe(2), {
        timeout: hangMs,
      });
      const byHand = await mill.schedules.runNow("daily");
      const { flows } = await mill.flows.list({ tag: "scheduled" });
      expect(flows).toHaveLength(3);
      expect(flows[0]?.id).toBe(byHand);
      for (const { id } of flows) expect(await mill.flows.run(id).result()).toEqual({ later: "1" });
      const times = ticks.map((tick) => tick?.getTime() ?? null);
      expect(times.filter((time) => time === null)).toHaveLength(1);
      expect(times.filter((time) => time !== null)).toHaveLength(2);
      expect(await counts()).toEqual({ flows: 3, members: 15 });
      const view = await mill.flows.get(byHand);
      expect(view).toMatchObject({ failureMode: "collect", counts: { completed: 3 } });
      expect((await mill.jobs.get(`${byHand}.first`))?.tags).toEqual(["own"]);
    });

    test("the next tick cancels the flow of the one before with all that runs of it", async () => {
      const steps = new Steps();
      await steps.work(mill);
      const held = flow("held");
      held.chain("step", [step.with("hold"), step.with("2")]);
      await mill.schedule("held", held, { every: "1s", overlap: "cancel-previous" });
      await vi.waitFor(
        async () => {
          const { flows } = await mill.flows.list({ state: "cancelled" });
          expect(flows.at(-1)).toMatchObject({ reason: "next-tick", counts: { total: 2, cancelled: 2 } });
        },
        { timeout: hangMs },
      );
      await mill.schedules.delete("held");
      steps.letGo();
    });

    test("a range of the past is filled with flows, so many alive at once", async () => {
      await work();
      await mill.schedule("daily", daily(), { cron: "0 0 1 1 *" });
      await mill.schedules.backfill("daily", { from: Date.UTC(2020, 0), to: Date.UTC(2023, 0), atOnce: 2 });
      await vi.waitFor(
        async () =>
          expect(await mill.schedules.backfillProgress("daily")).toMatchObject({ total: 3, done: true }),
        { timeout: hangMs },
      );
      const years = ticks.map((tick) => tick?.getUTCFullYear() ?? 0);
      expect(new Set(years)).toEqual(new Set([2020, 2021, 2022]));
      expect(await counts()).toEqual({ flows: 3, members: 15 });
    });

    test("the same flow again changes nothing; what cannot be kept is refused before anything is written", async () => {
      const first = await mill.schedule("daily", daily(), { every: "1h" });
      await mill.schedules.edit("daily", { every: "2h" });
      const again = await mill.schedule("daily", daily(), { every: "1h" });
      expect([first.edited, again.edited]).toEqual([[], ["rule"]]);
      const at = flow("at");
      at.add("a", step, "1", { runAt: new Date() });
      await expect(mill.schedule("at", at, { every: "1h" })).rejects.toThrow(coded("invalid-option"));
      const wide = flow("wide");
      for (let node = 0; node <= 1000; node++) wide.add(`n${node}`, step, "1");
      await expect(mill.schedule("wide", wide, { every: "1h" })).rejects.toThrow(coded("invalid-flow"));
      const keyed = mill.schedule("keyed", daily(), { every: "1h", key: "x" } as object as { every: "1h" });
      await expect(keyed).rejects.toThrow(coded("invalid-option"));
      expect(await mill.schedules.list()).toHaveLength(1);
    });
  });

  describe("a long chain ends in few calls", () => {
    const nodes = 400;
    const callsMax = 120;
    /** @returns how many calls the store gets from then on. */
    const counted = (): (() => number) => {
      let calls = 0;
      const { changeIf, readJobs, findJobs, readDocs, putDocs } = Object.fromEntries(
        (["changeIf", "readJobs", "findJobs", "readDocs", "putDocs"] as const).map((name) => {
          const call = store[name].bind(store) as (given: unknown) => Promise<never>;
          return [name, (given: unknown) => ((calls += 1), call(given))];
        }),
      ) as unknown as Pick<Store, "changeIf" | "readJobs" | "findJobs" | "readDocs" | "putDocs">;
      Object.assign(store, { changeIf, readJobs, findJobs, readDocs, putDocs });
      return () => calls;
    };
    const chainFrom = (input: string): Flow => {
      const given = flow("chain");
      const rest = Array.from({ length: nodes - 1 }, () => step.with("never"));
      const last = given.chain("step", [step.with(input), ...rest]);
      const alive = given.add("alive", step, "alive");
      given.add("any", step, "any", { after: [last, alive], join: "any" });
      given.add("all", step, "all", { after: [last, alive] });
      given.add("always", step, "always", { always: "step 7" });
      given.add("rescue", step, "rescue", { afterFailureOf: "step 7" });
      given.group("pair", [step.with("pair")], { after: "step 9" });
      return given;
    };

    test("when its first node fails, all that is lost with it is skipped, and nothing else", async () => {
      const calls = counted();
      const steps = new Steps();
      await steps.work(mill);
      const run = await mill.submit(chainFrom("fail"));
      await expect(run.result({ timeout: hangMs })).rejects.toThrow(coded("flow-failed"));
      expect(calls()).toBeLessThan(callsMax);
      const states = await statesOf(run);
      expect(states).toMatchObject({
        ...{ "step 1": "failed", "step 2": "skipped", [`step ${nodes}`]: "skipped", all: "skipped" },
        ...{ rescue: "skipped", pair: "skipped", "pair.0": "skipped" },
        ...{ any: "completed", always: "completed" },
      });
      expect((await run.view()).counts).toMatchObject({ failed: 1, completed: 3, skipped: nodes + 2 });
      expect(steps.ran.toSorted()).toEqual(["alive", "always", "any", "fail"]);
    });

    test("when it is cancelled", async () => {
      mill.duties.start();
      const run = await mill.submit(chainFrom("1"));
      const calls = counted();
      await run.cancel();
      await expect(run.result({ timeout: hangMs })).rejects.toThrow(coded("job-cancelled"));
      expect(calls()).toBeLessThan(callsMax);
      expect((await run.view()).counts).toMatchObject({ live: 0, cancelled: nodes + 6 });
    });
  });

  describe("onFailed", () => {
    const report = job<FailedFlow>("report");
    const failing = (failureMode: FailureMode, first = "fail"): Flow => {
      const given = flow("order", { failureMode, onFailed: report });
      given.add("after", step, "after", { after: given.add("first", step, first) });
      given.group("pair", [step.with("hold"), step.with("fail")], { tolerate: 1 });
      return given;
    };
    const reports = async (): Promise<readonly unknown[]> => {
      const { jobs } = await store.findJobs({
        filter: { name: "report" },
        max: 9,
        scanMax: 1000,
        cursor: null,
      });
      return jobs.map(({ input, flow: of }) => ({ flow: of, ...JSON.parse(input) }));
    };
    const failedNode = (id: string, node: string) => ({
      ...{ node, id: `${id}.${node}`, name: "step", state: "failed", reason: "retries-exhausted" },
      error: { name: "Error", message: "fail does not work" },
    });

    test("a flow that fails makes the job once, also if the process that makes it dies before the flow ends", async () => {
      const steps = new Steps();
      await steps.work(mill);
      const submit = store.submit.bind(store);
      let lost = 0;
      store.submit = async (units) => {
        const answers = await submit(units);
        if (lost > 0 || units[0]?.jobs[0]?.name !== "report") return answers;
        lost += 1;
        throw new MillraceError("store-unavailable", "the process is gone");
      };
      const run = await mill.submit(failing("fail-fast"));
      await expect(run.result({ timeout: hangMs })).rejects.toThrow(coded("flow-failed"));
      store.submit = submit;
      expect(lost).toBe(1);
      const [made, ...more] = (await reports()) as (FailedFlow & { readonly flow: string | null })[];
      expect(more).toEqual([]);
      expect(made).toMatchObject({ id: run.id, name: "order", flow: null });
      expect(made?.nodes).toContainEqual(failedNode(run.id, "first"));
      await run.retry();
      await expect(run.result({ timeout: hangMs })).rejects.toThrow(coded("flow-failed"));
      expect(await reports()).toHaveLength(1);
    });

    test("a node that a duty ends fails the flow as well", async () => {
      mill.duties.start();
      const given = flow("late", { onFailed: report });
      given.add("first", step, "1", { ttl: "10ms" });
      const run = await mill.submit(given);
      await expect(run.result({ timeout: hangMs })).rejects.toThrow(coded("flow-failed"));
      const node = { node: "first", id: `${run.id}.first`, name: "step", state: "expired", error: null };
      expect(await reports()).toMatchObject([{ id: run.id, name: "late", nodes: [node] }]);
    });

    test("a flow that completes or is cancelled makes none", async () => {
      const done = await mill.submit(failing("collect"));
      const cancelled = await mill.submit(failing("isolate", "hold"));
      await cancelled.cancel();
      await expect(cancelled.result({ timeout: hangMs })).rejects.toThrow(coded("job-cancelled"));
      const steps = new Steps();
      await steps.work(mill);
      await vi.waitFor(() => expect(steps.ran).toContain("hold"), { timeout: hangMs });
      steps.letGo();
      await done.result({ timeout: hangMs });
      expect(await reports()).toEqual([]);
    });

    test("what cannot be kept is refused before anything is written", async () => {
      const grouped = job<FailedFlow>("grouped", { group: ({ name }) => name });
      const limited = job<FailedFlow>("limited", { limits: [limit("api", { concurrency: 1 })] });
      const given = failing("isolate");
      expect(() => flow("outer").sub("inner", given)).toThrow(coded("invalid-option"));
      expect(() => flow("a", { onFailed: 1 as never })).toThrow(coded("invalid-option"));
      for (const onFailed of [grouped, limited]) {
        const refused = flow("refused", { onFailed });
        refused.add("first", step, "1");
        await expect(mill.submit(refused)).rejects.toThrow(coded("invalid-option"));
      }
      expect(await counts()).toEqual({ flows: 0, members: 0 });
    });
  });

  describe("a flow ends where no process has duties", () => {
    const nested = (): Flow => {
      const inner = flow("inner");
      inner.group("pair", [step.with("1"), step.with("2")]);
      const given = flow("nested");
      const first = given.add("first", step, "1", { tags: ["own"] });
      const sub = given.sub("sub", inner, { after: first });
      given.map("each", step, ["a", "b"], { after: sub, concurrency: 1 });
      return given;
    };
    const leftDocs = async (): Promise<number> =>
      (await store.readDueDocs({ max: 100, cursor: null })).docs.length;
    /** Runs it to its end in another process, which is gone then. */
    const ran = async (tags: readonly string[] = []): Promise<string> => {
      const other = millOn(store);
      const run = await other.submit(nested(), { tags });
      const worker = await new Steps().work(other);
      await run.result({ timeout: hangMs });
      await worker.stop();
      return run.id;
    };

    test("a cancel ends all of it before it answers", async () => {
      const run = await mill.submit(nested());
      expect(await run.cancel({ reason: "no more" })).toMatchObject({
        state: "cancelled",
        counts: { live: 0 },
      });
      const other = await mill.submit(nested());
      expect(await mill.jobs.cancel(other.id)).toBe("cancelled");
      expect(new Set(Object.values(await statesOf(run)))).toEqual(new Set(["cancelled"]));
      expect(await leftDocs()).toBe(0);
    });

    test("a cancel of one whose node runs answers that it is closing", async () => {
      const steps = new Steps();
      const other = millOn(store);
      const held = flow("held");
      held.add("hold", step, "hold");
      held.add("next", step, "2", { after: "hold" });
      const run = await mill.submit(held);
      await steps.work(other, { concurrency: 1 });
      await vi.waitFor(() => expect(steps.ran).toEqual(["hold"]), { timeout: hangMs });
      expect(await run.cancel({ pendingOnly: true })).toMatchObject({ state: "running", isClosing: true });
      steps.letGo();
      await expect(run.result({ timeout: hangMs })).rejects.toThrow(coded("job-cancelled"));
      await other.close().catch(() => undefined);
      store = await open();
      mill = millOn(store);
    });

    test("a delete takes all members with it", async () => {
      const id = await ran();
      await vi.waitFor(async () => expect(await leftDocs()).toBe(0), { timeout: hangMs });
      expect(await mill.jobs.delete(id)).toBe("deleted");
      expect(await counts()).toEqual({ flows: 0, members: 0 });
      expect(await leftDocs()).toBe(0);
      expect(await mill.jobs.delete(id)).toBe("not-found");
    });

    test("a delete by tag takes whole flows if it is asked to", async () => {
      const [tagged] = [await ran(["October"]), await ran(["November"])];
      const live = await mill.submit(nested(), { tags: ["October"] });
      const plain = await mill.enqueue(step, "1", { tags: ["October"] });
      const nothing = {
        deleted: 0,
        deleting: 0,
        running: 0,
        "flow-member": 0,
        "has-undo": 0,
        "not-found": 0,
      };
      expect(await mill.jobs.delete({ tag: "own" })).toEqual({ ...nothing, "flow-member": 3 });
      expect(await mill.jobs.delete({ tag: "October" }, { wholeFlows: true })).toMatchObject({ deleted: 2 });
      expect([await mill.flows.get(tagged!), await mill.jobs.get(plain.id)]).toEqual([null, null]);
      expect((await live.view()).state).toBe("running");
      // By the tags of members too.
      expect(await mill.jobs.delete({ tag: "own" }, { wholeFlows: true })).toMatchObject({
        deleted: 1,
        running: 1,
      });
      expect((await mill.flows.list()).flows.map(({ id }) => id)).toEqual([live.id]);
      await expect(mill.jobs.delete(live.id, { wholeFlows: true })).rejects.toThrow(coded("invalid-option"));
    });
  });
});
