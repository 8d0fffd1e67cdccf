// Jobs by the command line alone, on a real file: made, listed, shown, explained, run by a worker process, retried and
// cancelled.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { commandHandler, handler, job, Millrace } from "../../src/index.ts";
import {
  aFolder,
  aStoreUrl,
  millrace,
  millraceJson,
  root,
  say,
  sayJson,
  startMillrace,
} from "./run-millrace.ts";

type Doc = Record<string, unknown>;

/** A store with one job of each interesting kind, made in this process because that is faster. */
async function aBusyStore(): Promise<{ store: string; failed: string; done: string; waiting: string }> {
  const store = aStoreUrl();
  const mill = await Millrace.open(store, { log: false });
  const charge = job<{ order: number; card: string }>("charge", {
    queue: "payments",
    redact: ["card"],
    retry: { attempts: 2, backoff: 0 },
  });
  const worker = await mill.work([
    handler(charge, ({ input, log, progress }) => {
      log.warn("asking the bank", { order: input.order, card: input.card });
      progress(0.5, "half");
      if (input.order === 13) throw new Error("refused", { cause: new Error("no funds") });
      return { receipt: `r-${input.order}`, card: input.card };
    }),
  ]);
  const failed = await mill.enqueue(charge, { order: 13, card: "4242" }, { tags: ["unlucky"] });
  const done = await mill.enqueue(charge, { order: 1, card: "4242" });
  await failed.result().catch(() => undefined);
  await done.result();
  await worker.stop();
  const waiting = await mill.enqueue(job("remind", { queue: "later" }), null, { delay: "1h", unique: "r" });
  await mill.close();
  return { store, failed: failed.id, done: done.id, waiting: waiting.id };
}

describe("enqueue", () => {
  test("makes a job without the handlers' code, with every option", async () => {
    const store = aStoreUrl();
    const options =
      "--queue mail --delay 10m --id order-1 --priority low --unique k --tags a,b --attempts 5".split(" ");
    const args = ["enqueue", "send", '{"to":"ada"}', ...options, "--timeout", "30s", "--store", store];
    expect(await sayJson(args)).toEqual({ id: "order-1", how: "created", created: true });
    expect(await sayJson(args)).toEqual({ id: "order-1", how: "existing", created: false });
    const { jobs, cursor } = await sayJson(["list", "--store", store]);
    expect(cursor).toBeNull();
    expect(jobs).toEqual([
      expect.objectContaining({
        id: "order-1",
        name: "send",
        queue: "mail",
        state: "scheduled",
        attempt: 0,
        attemptsMax: 5,
        tags: ["a", "b"],
        input: { to: "ada" },
      }),
    ]);
    const conflict = await say(["enqueue", "send", "{}", "--id", "order-1", "--store", store]);
    expect(conflict.err).toMatch(/^millrace: id-conflict: /);
    expect(conflict.code).toBe(1);
  });

  test("makes it in a process of its own, too, on the store that the environment names", async () => {
    const store = aStoreUrl();
    const env = { MILLRACE_STORE: store };
    expect(await millraceJson(["enqueue", "send", "1", "--id", "1"], { env })).toMatchObject({ id: "1" });
    expect(await millraceJson(["list"], { env })).toMatchObject({ jobs: [{ id: "1" }] });
    expect((await millrace(["explain", "1"], { env })).out).toMatch(/^ready: /);
    expect(await millraceJson(["cancel", "1"], { env })).toEqual({ id: "1", answer: "cancelled" });
    expect(await millraceJson(["retry", "1"], { env })).toEqual({ id: "1", answer: "retried" });
    expect(await millraceJson(["show", "1"], { env })).toMatchObject({ job: { state: "ready" }, logs: [] });
    expect((await millrace(["doctor"], { env })).code).toBe(0);
  });

  test("prints the bare id where standard output is no terminal, and what it did on one", async () => {
    const args = ["enqueue", "send", "--id", "a-1", "--store", aStoreUrl()];
    expect((await say(args, {}, { isTTY: true })).out).toBe("a-1 created\n");
    expect((await say(args)).out).toBe("a-1\n");
  });

  test("reads the input from standard input, and takes none at all", async () => {
    const store = aStoreUrl();
    const { code, out } = await millrace(["enqueue", "a", "-", "--id", "1", "--store", store], {
      input: "[1,2]\n",
    });
    expect([code, out]).toEqual([0, "1\n"]);
    await sayJson(["enqueue", "b", "--id", "2", "--store", store]);
    const { jobs } = (await sayJson(["list", "--store", store])) as { jobs: Doc[] };
    expect(jobs.map(({ name, input }) => [name, input])).toEqual([
      ["b", null],
      ["a", [1, 2]],
    ]);
  });
});

describe("looking", () => {
  test("list filters, limits and goes on with a cursor", async () => {
    const { store, failed, done, waiting } = await aBusyStore();
    const ids = async (...args: string[]): Promise<unknown> => {
      const { jobs, cursor } = (await sayJson(["list", ...args, "--store", store])) as {
        jobs: Doc[];
        cursor: string | null;
      };
      return [...jobs.map(({ id }) => id), cursor === null ? "end" : "more"];
    };
    expect(await ids()).toEqual([waiting, done, failed, "end"]);
    expect(await ids("--state", "failed,completed")).toEqual([done, failed, "end"]);
    expect(await ids("--queue", "later")).toEqual([waiting, "end"]);
    expect(await ids("--name", "charge", "--state", "failed")).toEqual([failed, "end"]);
    expect(await ids("--tag", "unlucky")).toEqual([failed, "end"]);
    expect(await ids("--reason", "retries-exhausted")).toEqual([failed, "end"]);
    expect(await ids("--limit", "1")).toEqual([waiting, "more"]);
    const { cursor } = await sayJson(["list", "--limit", "1", "--store", store]);
    expect(await ids("--cursor", String(cursor))).toEqual([done, failed, "end"]);
    const { out } = await say(["list", "--store", store]);
    expect(out).toMatch(/^ID +NAME +QUEUE +STATE +TRY +CREATED\n/);
    expect(out).toMatch(/failed +2\/2 .*retries-exhausted: refused/);
    expect((await say(["list", "--queue", "none", "--store", store])).out).toBe("no jobs\n");
  });

  test("a reader that goes away early is no failure", async () => {
    const { store } = await aBusyStore();
    const listing = startMillrace(["list", "--json", "--store", store]);
    listing.child.stdout?.destroy();
    expect(await listing.ended).toMatchObject({ code: 0, err: "" });
  });

  test("show says how a command exited and what it printed", async () => {
    const store = aStoreUrl();
    const mill = await Millrace.open(store, { log: false });
    const check = job("check", { retry: { attempts: 1 } });
    await mill.work([
      commandHandler(check, { shell: "echo out; printf 'red \\033[31m\\n' >&2; exit 3" }, () => ({})),
    ]);
    const handle = await mill.enqueue(check, {});
    await handle.result().catch(() => {});
    await mill.close();
    const { out: text } = await say(["show", handle.id, "--store", store]);
    expect(text).toMatch(/attempt 1 failed[^]*exit code 3\n\s+stdout: out\n\s+stderr: red /);
    expect(text).not.toContain("\u001b");
  });

  test("show has a job's life, with redacted fields redacted", async () => {
    const { store, failed, done } = await aBusyStore();
    const { job: shown, logs } = (await sayJson(["show", failed, "--store", store])) as {
      job: Doc;
      logs: Doc[];
    };
    expect(Object.keys(shown)).toEqual(
      "id name queue requires group state held reason attempt attemptsMax tags headers schedule flow uniqueKey throttles spent cancelAsked worker createdAt dueAt claimedAt startedAt leaseEndsAt deadlineAt endedAt input result progress failures".split(
        " ",
      ),
    );
    expect(shown).toMatchObject({
      state: "failed",
      reason: "retries-exhausted",
      attempt: 2,
      input: { order: 13, card: "[redacted]" },
    });
    expect(shown["failures"]).toMatchObject([
      { attempt: 1, outcome: "failed", error: { message: "refused", cause: { message: "no funds" } } },
      { attempt: 2, outcome: "failed" },
    ]);
    expect(logs[0]).toMatchObject({
      level: "warn",
      message: "asking the bank",
      fields: { order: 13, card: "[redacted]" },
    });
    const text = await say(["show", failed, "--store", store]);
    expect(text.out).toMatch(/attempt 1 failed after .*\n +Error: refused\n +caused by Error: no funds\n/);
    expect(text.out).toMatch(/failed: retries-exhausted\n$/);
    expect(text.out).not.toContain("4242");
    for (const more of [[], ["--stacks"]])
      expect((await say(["show", failed, ...more, "--store", store])).out).toMatch(/jobs\.test\.ts:\d+/);
    const completed = await say(["show", done, "--store", store]);
    expect(completed.out).toContain('result    {"receipt":"r-1","card":"[redacted]"}');
    expect(completed.out).not.toContain("4242");
  });

  test("explain says why a job waits", async () => {
    const { store, waiting } = await aBusyStore();
    expect(await sayJson(["explain", waiting, "--store", store])).toEqual({
      id: waiting,
      state: "scheduled",
      held: null,
      why: expect.stringMatching(/^It is not due for \d+m \d+s/),
      expectedAt: expect.stringMatching(/^\d{4}-/),
      readyLikeThis: 0,
    });
    expect((await say(["explain", waiting, "--store", store])).out).toMatch(
      /^scheduled: .*\nexpected in 59m/,
    );
  });

  const byId = ["show", "explain", "retry", "cancel", "logs", "run-now", "revoke", "delete"].map((each) => [
    each,
  ]);
  test.each([...byId, ["reschedule", "--delay=1h"], ["edit", "--input=1"]])(
    "%s of an id that is not there fails",
    async (command, ...options) => {
      const { store } = await aBusyStore();
      const { code, err } = await say([command as string, "nobody", ...options, "--store", store]);
      expect(err).toBe('millrace: job-not-found: There is no job "nobody".\n');
      expect(code).toBe(1);
    },
  );
});

describe("operating", () => {
  test("retry by id and by filter makes finished jobs run again, in a worker process", async () => {
    const { store, failed, done } = await aBusyStore();
    expect(await sayJson(["retry", failed, "--input", '{"order":2,"card":"1"}', "--store", store])).toEqual({
      ...{ id: failed, answer: "retried" },
    });
    const none = { retried: 0, unfinished: 0, "key-held": 0, "flow-member": 0, "not-found": 0 };
    expect(await sayJson(["retry", "--state", "completed", "--name", "charge", "--store", store])).toEqual({
      ...none,
      retried: 1,
    });
    expect(await sayJson(["retry", "--state", "failed", "--store", store])).toEqual(none);
    const again = await say(["retry", done, "--store", store]);
    expect(again.err).toMatch(/^millrace: job-changed: .* has not ended/);
    expect(again.code).toBe(1);

    const file = join(aFolder(), "jobs.ts");
    const index = join(root, "src", "index.ts");
    writeFileSync(
      file,
      `import { handler, job } from ${JSON.stringify(index)};
       export default [handler(job<{ order: number }>("charge", { queue: "payments" }), ({ input }) => { console.log("charged " + input.order + "."); })];`,
    );
    const worker = startMillrace(["work", file, "--store", store]);
    await worker.hears(/charged 2\./);
    await worker.hears(/charged 1\./);
    worker.child.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
    expect((await sayJson(["show", failed, "--store", store]))["job"]).toMatchObject({
      state: "completed",
      attempt: 1,
    });
  });

  test("cancel by id and by filter ends waiting jobs, and refuses finished ones", async () => {
    const { store, done, waiting } = await aBusyStore();
    expect(await sayJson(["cancel", waiting, "--why", "not needed", "--store", store])).toEqual({
      id: waiting,
      answer: "cancelled",
    });
    expect((await sayJson(["show", waiting, "--store", store]))["job"]).toMatchObject({
      state: "cancelled",
      reason: "not needed",
    });
    const late = await say(["cancel", done, "--store", store]);
    expect(late.err).toMatch(/^millrace: job-changed: .* has finished already/);
    expect(late.code).toBe(1);
    for (const id of ["1", "2", "3"])
      await sayJson(["enqueue", "send", "--queue", "mail", "--tags", "t", "--id", id, "--store", store]);
    expect(await sayJson(["cancel", "--tag", "t", "--store", store])).toEqual({
      cancelled: 3,
      signalled: 0,
      finished: 0,
      "not-found": 0,
    });
    expect(await sayJson(["cancel", "--queue", "mail", "--store", store])).toEqual({
      cancelled: 0,
      signalled: 0,
      finished: 0,
      "not-found": 0,
    });
  });
});
