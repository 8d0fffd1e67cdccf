// Tokens of approvals: what they answer, and what they do not. On SQLite; the journal that accepts an answer once is a
// matter of the contract.
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { signToken } from "../../src/engine/durable/approval-token.ts";
import { handler, job, Millrace } from "../../src/index.ts";
import { until } from "../support/until.ts";
import { testMillrace } from "../../src/testing/index.ts";

const expense = job("expense", {
  input: z.object({ of: z.number(), rounds: z.number().optional() }),
  signals: { manager: z.object({ ok: z.boolean() }), other: z.object({}) },
  durable: { version: 1 },
});
const plain = job("plain");

let mill: Millrace;
let decided: unknown[] = [];

beforeEach(async () => {
  decided = [];
  mill = await Millrace.open("sqlite::memory:", { log: false });
  await mill.work([
    handler(plain, async () => "done"),
    handler(expense, async ({ input, step }) => {
      const decision = await step.approval("manager", { of: input.of, timeout: "7d" });
      decided.push(decision.answers.map(({ source }) => source));
      if (input.rounds !== undefined && input.rounds > 1)
        return step.continueWith({ of: input.of, rounds: input.rounds - 1 });
      return decision.approved;
    }),
  ]);
});
afterEach(() => mill.close());

const tokenFor = (run: string, source: string) =>
  mill.approvals.token(run, "manager", { source, expires: "1d" });

test("two sources approve, each by its own token, and a token answers once", async () => {
  const run = await mill.enqueue(expense, { of: 2 });
  const [ann, bob] = [await tokenFor(run.id, "ann"), await tokenFor(run.id, "bob")];
  const look = await mill.approvals.look(ann);
  expect(look).toMatchObject({ kind: "open", run: run.id, job: "expense", signal: "manager", source: "ann" });
  // To look at a token, as mail scanners do, changes nothing.
  expect((await mill.approvals.look(ann)).kind).toBe("open");
  expect(await mill.approvals.answer(ann, { ok: true })).toEqual({ kind: "accepted" });
  expect(await mill.approvals.answer(ann, { ok: false })).toEqual({ kind: "used" });
  expect(await mill.approvals.look(ann)).toEqual({ kind: "used" });
  expect(await mill.approvals.answer(bob, { ok: true })).toEqual({ kind: "accepted" });
  expect(await run.result()).toBe(true);
  expect(decided).toEqual([["ann", "bob"]]);
});

test("a source answers once in each round of the run", async () => {
  const run = await mill.enqueue(expense, { of: 1, rounds: 2 });
  const first = await tokenFor(run.id, "ann");
  expect(await mill.approvals.answer(first, { ok: true })).toEqual({ kind: "accepted" });
  await until("the next round waits", async () => {
    const view = await mill.runs.get(run.id);
    return view?.round === 1 && view.steps.some(({ state }) => state === "waiting");
  });
  expect((await mill.approvals.answer(first, { ok: true })).kind).toBe("closed");
  expect(await mill.approvals.answer(await tokenFor(run.id, "ann"), { ok: true })).toEqual({
    kind: "accepted",
  });
  expect(await run.result()).toBe(true);
  expect(decided).toEqual([["ann"], ["ann"]]);
});

test("two answers of one source at once count once", async () => {
  const run = await mill.enqueue(expense, { of: 2 });
  const token = await tokenFor(run.id, "ann");
  const answers = await Promise.all([1, 2, 3].map(() => mill.approvals.answer(token, { ok: true })));
  expect(answers.map(({ kind }) => kind).toSorted()).toEqual(["accepted", "used", "used"]);
  // Another token of the same source and wait is no second vote.
  expect(await mill.approvals.answer(await tokenFor(run.id, "ann"), { ok: true })).toEqual({ kind: "used" });
  await mill.approvals.answer(await tokenFor(run.id, "bob"), { ok: true });
  expect(await run.result()).toBe(true);
});

test("the first answer that declines decides, and later ones find it closed", async () => {
  const run = await mill.enqueue(expense, { of: 2 });
  const [ann, bob] = [await tokenFor(run.id, "ann"), await tokenFor(run.id, "bob")];
  await mill.approvals.answer(ann, { ok: false });
  expect(await run.result()).toBe(false);
  expect(await mill.approvals.answer(bob, { ok: true })).toEqual({ kind: "closed" });
  expect(await mill.approvals.look(bob)).toEqual({ kind: "closed" });
});

test("forged, malformed and foreign tokens are one answer, and say nothing of the run", async () => {
  const run = await mill.enqueue(expense, { of: 1 });
  const token = await tokenFor(run.id, "ann");
  const claims = { run: run.id, round: 0, wait: "?manager#1", source: "eve", expiresAt: 8e15 };
  const forged = signToken(claims, { id: "x", secret: new Uint8Array(32), until: null }, "approval");
  const [body = "", mac = ""] = token.split(".");
  const flipped = `${body}.${mac.startsWith("A") ? "B" : "A"}${mac.slice(1)}`;
  for (const wrong of [forged, flipped, `${token}x`, body, "", ".", "x".repeat(10_000), 7 as never])
    for (const verb of ["look", "answer"] as const)
      expect([wrong, await mill.approvals[verb](wrong, { ok: true })]).toEqual([wrong, { kind: "invalid" }]);
  await mill.approvals.answer(token, { ok: true });
  expect(await run.result()).toBe(true);
});

test("a token expires, and retired keys are refused after their grace", async () => {
  const run = await mill.enqueue(expense, { of: 1 });
  const late = await mill.approvals.token(run.id, "manager", { source: "ann", expires: 0 });
  expect(await mill.approvals.answer(late, { ok: true })).toEqual({ kind: "expired" });
  const token = await tokenFor(run.id, "ann");
  await mill.approvals.rotateKeys({ grace: "1h" });
  expect((await mill.approvals.look(token)).kind).toBe("open");
  await mill.approvals.rotateKeys({ grace: 0 });
  expect(await mill.approvals.look(token)).toEqual({ kind: "invalid" });
  await mill.approvals.answer(await tokenFor(run.id, "ann"), { ok: true });
  expect(await run.result()).toBe(true);
});

test("a token made before the wait answers it, and no later wait", async () => {
  const run = await mill.enqueue(expense, { of: 1 }, { delay: "1h" });
  const first = await tokenFor(run.id, "ann");
  const second = await mill.approvals.token(run.id, "manager", {
    source: "ann",
    expires: "1d",
    occurrence: 2,
  });
  expect(await mill.approvals.look(first)).toMatchObject({ kind: "open", isAwaited: false });
  await mill.approvals.answer(second, { ok: true });
  await mill.approvals.answer(first, { ok: false });
  await mill.jobs.runNow(run.id);
  expect(await run.result()).toBe(false);
});

test("wrong calls are refused with a code", async () => {
  const run = await mill.enqueue(expense, { of: 1 }, { delay: "1h" });
  const done = await mill.enqueue(plain, null);
  await done.result();
  const options = { source: "ann", expires: "1d" } as const;
  const { approvals } = mill;
  await expect(approvals.token("nobody", "manager", options)).rejects.toMatchObject({
    code: "job-not-found",
  });
  await expect(approvals.token(run.id, "boss", options)).rejects.toMatchObject({ code: "unknown-signal" });
  await expect(approvals.token(done.id, "manager", options)).rejects.toMatchObject({ code: "job-changed" });
  await expect(approvals.token(run.id, "manager", { ...options, source: "" })).rejects.toMatchObject({
    code: "invalid-name",
  });
  await expect(approvals.token(run.id, "manager", { ...options, sauce: 1 } as never)).rejects.toMatchObject({
    code: "invalid-option",
  });
});

test("an approval whose time is over escalates once, and then the same time counts again", async () => {
  const remind = job<string>("remind");
  const asked = job<null, string>("asked", {
    signals: { manager: z.object({ ok: z.boolean() }) },
    durable: { version: 1 },
  });
  const t = await testMillrace({
    handlers: [
      handler(remind, () => {}),
      handler(asked, async ({ step }) => {
        const { approved, timedOut } = await step.approval("manager", {
          timeout: "1d",
          escalate: remind.with("please decide"),
        });
        return timedOut ? "timed out" : approved ? "approved" : "declined";
      }),
    ],
  });
  const [late, inTime] = [await t.enqueue(asked, null), await t.enqueue(asked, null)];
  await t.drain();
  await t.clock.advance("1d");
  await t.drain();
  expect(t.completed(remind).map(({ input }) => input)).toEqual(["please decide", "please decide"]);
  expect(t.completed(asked)).toEqual([]);
  await t.mill.signal(inTime.id, "manager", { ok: true });
  await t.clock.advance("1d");
  await t.drain();
  const results = t.completed(asked).map(({ id, result }) => [id, result]);
  expect(new Map(results as [string, unknown][])).toEqual(
    new Map([
      [late.id, "timed out"],
      [inTime.id, "approved"],
    ]),
  );
  expect(t.completed(remind)).toHaveLength(2);
  await t.close();
});
