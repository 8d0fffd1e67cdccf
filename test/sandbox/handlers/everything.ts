// A handler that does what its input says, to be run in the worker, in a thread and in a child process alike.
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import type { JobContext } from "millrace";
// Not from the whole package: a test starts this file dozens of times.
import { Cancel, RetryAfter, Snooze, Throttled, Unrecoverable } from "../../../src/worker/control.ts";
import { flow } from "../../../src/engine/flows/flow.ts";
import { everything, followUp, stranger } from "./jobs.ts";
import type { Wish } from "./jobs.ts";

export default async function doAsWished(context: JobContext<Wish>): Promise<unknown> {
  const { input, progress, log, kv, enqueue, whenFailed, signal } = context;
  switch (input.do) {
    case "echo":
      return input.value;
    case "tell": {
      const { id, name, queue, attempt, isLastAttempt, worker, host, headers, trace, schedule } = context;
      const { createdAt, idempotencyKey, fence } = context;
      return {
        ...{ id, name, queue, attempt, isLastAttempt, worker, host, headers, trace, schedule },
        ...{ createdAt, idempotencyKey, fence },
      };
    }
    case "where":
      return { pid: process.pid };
    case "report":
      progress(0.5, "half", { rows: 3 });
      log.warn("look at this", { row: 7, error: new Error("broken") });
      return "reported";
    case "stream":
      context.stream.write("text");
      await context.stream.flush();
      context.stream.write({ at: new Date(5) });
      context.stream.summary({ frames: 2 });
      return "streamed";
    case "effects": {
      kv.put("seen", { at: new Date(5) });
      const own = await kv.get("seen");
      const stored = await kv.get<number>("before");
      kv.delete("gone");
      const id = enqueue(followUp, { from: context.id }, { tags: ["next"] });
      return { own, stored, id };
    }
    case "follow":
      return enqueue(followUp, { from: context.id });
    case "grow": {
      const { flow } = context;
      const first = flow?.add("first", followUp, { from: "first" }, { tags: ["grown"] });
      if (first !== undefined) flow?.add("second", followUp, { from: first.result as never });
      flow?.group("pair", [followUp.with({ from: "a" }), followUp.with({ from: "b" })], { after: "second" });
      flow?.map("each", followUp, [{ from: "x" }, { from: "y" }], { concurrency: 1 });
      return flow?.node ?? null;
    }
    case "submit-flow": {
      const given = flow("begun", { failureMode: "collect" });
      const first = given.add("first", followUp, { from: "first" }, { tags: ["begun"] });
      given.group("pair", [followUp.with({ from: "a" }), followUp.with({ from: first.result as never })]);
      return context.submit(given, { tags: ["from a sandbox"] });
    }
    case "submit-doomed": {
      const given = flow("doomed", { onFailed: followUp as never });
      given.add("first", followUp, { from: "first" }, { requires: ["nobody"], ttl: "20ms" });
      return context.submit(given);
    }
    case "submit-circle": {
      const given = flow("circle");
      given.add("a", followUp, { from: "a" }, { after: "b" });
      given.add("b", followUp, { from: "b" }, { after: "a" });
      return context.submit(given);
    }
    case "grow-unlisted":
      context.flow?.add("never", stranger, {});
      return "not reached";
    case "fail-with-effects":
      kv.put("never", 1);
      whenFailed.kv.put("failed", context.attempt);
      whenFailed.enqueue(followUp, { from: "failure" });
      throw new TypeError("as asked", { cause: new Error("deeper") });
    case "unlisted":
      enqueue(everything, { do: "echo", value: 1 });
      (enqueue as (job: object, input: object) => void)({ name: "stranger" }, {});
      return "not reached";
    case "misplace": {
      const codes: unknown[] = [];
      const note = (error: unknown): unknown => codes.push((error as { code?: unknown }).code);
      const calls = [
        () => kv.put("far-{18}", 1),
        () => kv.delete("far-{18}"),
        () => void enqueue(followUp, { from: context.id }, { id: "far-{18}" }),
      ];
      for (const call of calls)
        try {
          call();
        } catch (error) {
          note(error);
        }
      kv.put("near-{17}", 2);
      return codes;
    }
    case "bad-key":
      kv.put("", 1);
      return "not reached";
    case "snooze":
      if ((await kv.get("snoozed")) === undefined) return new Snooze("1h");
      return "rested";
    case "unrecoverable":
      throw new Unrecoverable("never again");
    case "retry-after":
      if (context.attempt === 1) throw new RetryAfter("10ms", "soon");
      return context.attempt;
    case "cancel":
      throw new Cancel("not wanted");
    case "throttled":
      throw new Throttled("upstream", { retryAfter: "1h" });
    case "extend":
      await context.extend("1m");
      return "extended";
    case "until-aborted":
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      log.info(`told: ${(signal.reason as { reason: string }).reason}`);
      throw signal.reason;
    case "spin":
      for (let turns = 0; ; turns++) if (turns < 0) return "never";
    case "exit":
      console.log("last words on stdout");
      console.error("last words on stderr");
      await sleep(20);
      return process.exit(7);
    case "crash":
      setImmediate(() => {
        throw new Error("nobody catches this");
      });
      return sleep(60_000);
    case "reject":
      void Promise.reject(new Error("nobody awaits this"));
      return sleep(60_000);
    case "print":
      console.log(String(input.value));
      console.error("to the other stream");
      return "printed";
    case "print-much":
      for (let line = 0; line < 20_000; line++) console.log(`line ${line}`);
      return "printed";
    case "print-without-end":
      for (;;) {
        console.log("x".repeat(100_000));
        await sleep(0);
      }
    case "hoard": {
      const kept: unknown[] = [];
      for (;;) {
        kept.push(Array.from({ length: 100_000 }, (_, index) => ({ index })));
      }
    }
    case "hoard-buffers": {
      // Slowly, so that the process is not ended by the machine before its second is over.
      for (const kept: Buffer[] = []; ; await sleep(20)) kept.push(Buffer.alloc(4 * 1024 * 1024, 1));
    }
    case "uncrossable":
      return () => "a function";
    case "late":
      setTimeout(() => {
        progress(0.9);
        log.info("too late");
      }, 5);
      return "early";
    case "children": {
      // One that stays in the group, one that leaves it and ignores SIGTERM, told by their mark files.
      const script = `trap "" TERM; echo $$ > "$1"; while :; do sleep 0.05; done`;
      const [plain, escaped] = input.value as [string, string];
      spawn("sh", ["-c", script, "sh", plain], { stdio: "ignore" });
      spawn("setsid", ["sh", "-c", script, "sh", escaped], { stdio: "ignore" });
      return new Promise(() => {});
    }
  }
}
