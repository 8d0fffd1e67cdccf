/** What a caller does with a whole flow, on every store: submits it again, cancels and deletes it, no worker near. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { flow } from "../../src/engine/flows/flow.ts";
import type { Flow } from "../../src/engine/flows/flow.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { MillraceError } from "../../src/model/error.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { eachStore } from "../support/servers/each-store.ts";
import { Steps, join, step } from "../support/flow-steps.ts";
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
});
