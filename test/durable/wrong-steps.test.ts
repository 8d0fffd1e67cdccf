// Calls of `step` that make no sense, through client, engine and worker, over SQLite on virtual time.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { Step } from "../../src/index.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";

const v = useVirtualMill();

const given = job("given", {
  signals: { ok: z.object({ ok: z.boolean() }), paid: z.string() },
  durable: { version: 1 },
  retry: { attempts: 1 },
});

type AnyStep = Step<{ ok: { ok: boolean }; paid: string }>;

/** @returns the code and the message of the error that ends the run. */
async function failureOf(code: (step: AnyStep) => Promise<unknown>): Promise<string> {
  let seen = "";
  await v.run(
    v.mill.work([
      handler(given, async ({ step }) => {
        try {
          return await code(step as never);
        } catch (error) {
          seen = `${(error as { code?: string }).code}: ${(error as Error).message}`;
          throw error;
        }
      }),
    ]),
  );
  const run = await v.run(v.mill.enqueue(given, {}));
  await expect(v.run(run.result({ timeout: "1h" }))).rejects.toMatchObject({ code: "job-failed" });
  return seen;
}

describe("a call of step is refused where it is made", () => {
  const date = new Date(Number.NaN);
  const wrong: readonly [string, (step: AnyStep) => Promise<unknown>, RegExp][] = [
    [
      "an unknown option",
      (step) => step.run("a", () => 1, { retries: 3 } as never),
      /invalid-option.*retries/,
    ],
    [
      "code that is no function",
      (step) => step.run("a", 5 as never),
      /invalid-option: step.run "a": the code/,
    ],
    [
      "an undo that is no function",
      (step) => step.run("a", () => 1, { undo: 5 as never }),
      /invalid-option.*undo/,
    ],
    [
      "a timeout that cannot be read",
      (step) => step.run("a", () => 1, { timeout: "soon" as never }),
      /invalid-duration/,
    ],
    ["a date that is none", (step) => step.sleepUntil("a", date), /invalid-option: step.sleepUntil "a"/],
    ["a timeout at no date", (step) => step.waitFor("ok", { timeout: date }), /invalid-option.*timeout/],
    [
      "another onTimeout",
      (step) => step.waitFor("ok", { onTimeout: "go" as never }),
      /invalid-option.*onTimeout/,
    ],
    ["a signal that the job does not take", (step) => step.waitFor("no" as never), /unknown-signal.*"no"/],
    ["the same of an approval", (step) => step.approval("no" as never, { timeout: 1 }), /unknown-signal/],
    [
      "an approval without options",
      (step) => step.approval("ok", undefined as never),
      /invalid-option.*object/,
    ],
    ["a race without branches", (step) => step.race({}), /invalid-option: step.race/],
    ["a branch that is no function", (step) => step.race({ a: 1 as never }), /invalid-option.*branch "a"/],
    [
      "an each that would run nothing",
      (step) => step.each("e", ["a"], String, async () => 1, { concurrency: 0 }),
      /invalid-option: step.each "e": concurrency/,
    ],
  ];
  test.each(wrong)("%s", async (_title, code, message) => {
    expect(await failureOf(code)).toMatch(message);
  });

  const inside: readonly [string, (step: AnyStep) => Promise<unknown>][] = [
    ["run", (step) => step.run("out", () => step.run("in", () => 1), { retry: { attempts: 1 } })],
    ["uuid", (step) => step.run("out", () => step.uuid(), { retry: { attempts: 1 } })],
    ["patched", (step) => step.run("out", async () => step.patched("p"), { retry: { attempts: 1 } })],
  ];
  test.each(inside)(
    "%s inside of a step, because a replay does not run the step's code",
    async (_title, code) => {
      expect(await failureOf(code)).toMatch(/The code of a step called step/);
    },
  );
});

test("an undo that calls step fails as an undo, and the run ends", async () => {
  await v.run(
    v.mill.work([
      handler(given, async ({ step }) => {
        await step.run("a", () => 1, { undo: () => step.run("b", () => 1) });
        await step.waitFor("paid");
      }),
    ]),
  );
  const run = await v.run(v.mill.enqueue(given, {}));
  await v.advance(1000);
  await v.run(v.mill.jobs.cancel(run.id));
  await v.advance(3_600_000);
  expect(await v.run(v.mill.jobs.get(run.id))).toMatchObject({ state: "failed", reason: "undo-failed" });
});

test("a step with a timeout whose code throws at once leaves no rejection behind", async () => {
  const unhandled: unknown[] = [];
  const listen = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", listen);
  const message = await failureOf((step) =>
    step.run(
      "a",
      () => {
        throw new Error("at once");
      },
      { timeout: "10s", retry: { attempts: 1 } },
    ),
  );
  await v.advance(60_000);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", listen);
  expect(message).toMatch(/at once/);
  expect(unhandled).toEqual([]);
});

test("an approval whose own code throws fails as a step does", async () => {
  await v.run(
    v.mill.work([
      handler(given, async ({ step }) => {
        const approves = (): boolean => {
          throw new Error("no idea");
        };
        return step.approval("ok", { timeout: "1h", approves });
      }),
    ]),
  );
  const run = await v.run(v.mill.enqueue(given, {}));
  await v.advance(1000);
  await v.run(v.mill.signal(run.id, "ok", { ok: true }));
  await expect(v.run(run.result({ timeout: "1h" }))).rejects.toThrow(/step-failed.*no idea/);
});

test("an answer of the wrong shape does not use its token up", async () => {
  await v.run(v.mill.work([handler(given, ({ step }) => step.approval("ok", { timeout: "1h" }))]));
  const run = await v.run(v.mill.enqueue(given, {}));
  await v.advance(1000);
  const token = await v.run(v.mill.approvals.token(run.id, "ok", { source: "ann", expires: "1h" }));
  await expect(v.run(v.mill.approvals.answer(token, { ok: "perhaps" }))).rejects.toMatchObject({
    code: "invalid-input",
  });
  expect(await v.run(v.mill.approvals.answer(token, { ok: true }))).toEqual({ kind: "accepted" });
  expect(await v.run(run.result())).toMatchObject({ approved: true });
});
