/**
 * The entry file of Millrace's own threads and child processes: it loads the file of a handler and runs the jobs that
 * the worker sends (messages.ts), one at a time. Started by sandbox.ts.
 */
import { JobIds } from "../../engine/submit/job-ids.ts";
import { MillraceError } from "../../model/error.ts";
import { describeError } from "../../model/job/attempt-log.ts";
import { nodePlatform } from "../../platform/node-platform.ts";
import { openOwnLine } from "../../platform/own-line.ts";
import { controlOf } from "../control.ts";
import type { AbortReason } from "../control.ts";
import { LineReader } from "./line-reader.ts";
import { loadHandler } from "./load-handler.ts";
import type { LoadedHandler } from "./load-handler.ts";
import { lineOf, lineWith, readMessage, valueIn } from "./messages.ts";
import type { ToSandbox } from "./messages.ts";
import { SandboxContext } from "./sandbox-context.ts";
import type { SandboxSurroundings } from "./sandbox-context.ts";
import { sendThrown } from "./sent-error.ts";

const line = openOwnLine();
let handle: LoadedHandler | null = null;
let around: SandboxSurroundings | null = null;
let current: { readonly run: number; readonly context: SandboxContext } | null = null;
/** Runs that were sent ahead. */
const waiting: Extract<ToSandbox, { type: "run" }>[] = [];
/** Runs among them that were aborted before they began, with the reason. */
const stopped = new Map<number, AbortReason>();

/** Messages of one flush are sent in one piece. */
let unsent = "";
function send(text: string): void {
  if (unsent === "") queueMicrotask(flush);
  unsent += text;
}
function flush(): void {
  const text = unsent;
  unsent = "";
  if (text !== "") line.send(text);
}

async function start(message: Extract<ToSandbox, { type: "start" }>): Promise<void> {
  try {
    const { file = "", jobs, partitions } = message;
    around = { send, jobs: new Set(jobs), ids: new JobIds(nodePlatform, partitions) };
    handle = await loadHandler(new URL(file));
    send(lineOf({ type: "ready", aborts: true, ahead: true }));
  } catch (error) {
    send(lineOf({ type: "failed", error: describeError(error) }));
  }
}

async function runAll(first: Extract<ToSandbox, { type: "run" }>): Promise<void> {
  let next: typeof first | undefined = first;
  while (next !== undefined) {
    await run(next);
    next = waiting.shift();
  }
}

async function run(message: Extract<ToSandbox, { type: "run" }>): Promise<void> {
  const { run: number, job } = message;
  if (handle === null || around === null) throw new Error("a job came before the handler was loaded");
  const context = new SandboxContext(number, job, valueIn(message, "input"), around);
  current = { run: number, context };
  const reason = stopped.get(number);
  stopped.delete(number);
  if (reason !== undefined) context.abort(reason);
  const startedUs = nodePlatform.monotonicUs();
  const ran = (): number => nodePlatform.monotonicUs() - startedUs;
  let last: string;
  try {
    // The run was aborted before it began.
    if (reason !== undefined) throw context.signal.reason;
    const outcome = await handle(context);
    const isThrown = controlOf(outcome) !== null || outcome instanceof Error;
    last = isThrown ? threw(number, ran(), outcome) : returned(number, ran(), outcome);
  } catch (error) {
    last = threw(number, ran(), error);
  }
  context.close();
  // The end of a run must come after all that the run has printed.
  const sent = line.outputSent();
  if (sent !== null) await sent;
  current = null;
  send(last);
  // Flushed before the next run begins: if that run ends this process, this one has still ended well.
  flush();
}

function threw(run: number, ranUs: number, thrown: unknown): string {
  return lineOf({ type: "threw", run, ranUs, ...sendThrown(thrown) });
}

/**
 * A result that cannot be sent is final, as if the worker's codec had refused it: another attempt would return the
 * same.
 */
function returned(run: number, ranUs: number, result: unknown): string {
  try {
    return lineWith({ type: "returned", run, ranUs }, "result", result);
  } catch (error) {
    return lineOf({ type: "threw", run, error: describeError(error), control: { kind: "unrecoverable" } });
  }
}

function heard(text: string): void {
  const message = readMessage<ToSandbox>(text);
  if (typeof message === "string") throw new MillraceError("invalid-option", message);
  switch (message.type) {
    case "start":
      return void start(message);
    case "run":
      return current === null ? void runAll(message) : void waiting.push(message);
    case "abort":
      if (current?.run === message.run) return current.context.abort(message.reason);
      return waiting.some((each) => each.run === message.run)
        ? void stopped.set(message.run, message.reason)
        : undefined;
    case "answer":
      return current?.run === message.run ? current.context.answered(message) : undefined;
    case "end":
      flush();
      return line.leave();
  }
}

const reader = new LineReader({
  bytesMax: Number.MAX_SAFE_INTEGER,
  heard,
  tooLong: () => {},
});
line.listen((piece) => reader.read(piece));
