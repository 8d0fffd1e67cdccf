/** Starts measuring processes, brings the parts of one drain to the line together, and collects what they say. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { FromProcess, Measurement, Outcome, ToProcess } from "./measurement.ts";

const entry = fileURLToPath(new URL("measuring-process.ts", import.meta.url));
const compileCache = fileURLToPath(new URL("../../node_modules/.cache/millrace-bench-code", import.meta.url));
/** Longer than the slowest measurement; a process that hangs must not hang the bench. */
const giveUpMs = 600_000;

const running = new Set<ChildProcess>();

export function endAll(): void {
  for (const child of running) child.kill("SIGKILL");
}

export interface Part {
  readonly ready: Promise<void>;
  readonly outcome: Promise<Outcome>;
  readonly say: (word: ToProcess) => void;
}

export async function measureInProcess(
  measurement: Measurement,
  profileFolder: string | null,
): Promise<Outcome> {
  return startPart(measurement, profileFolder, () => {}).outcome;
}

/** All parts begin once the last of them is ready, and stop once they have seen `ends` ends of attempts together. */
export async function drainInProcesses(
  measurement: Measurement,
  { processes, ends, profileFolder }: { processes: number; ends: number; profileFolder: string | null },
): Promise<readonly Outcome[]> {
  const totals = Array.from({ length: processes }, () => 0);
  const parts: Part[] = totals.map((_, index) =>
    startPart(measurement, profileFolder, (message) => {
      if (message.kind !== "progress") return;
      totals[index] = message.total;
      if (totals.reduce((sum, each) => sum + each, 0) >= ends) for (const part of parts) part.say("stop");
    }),
  );
  // Listening from the start: a part that fails before it is ready must not go unheard.
  const outcomes = Promise.all(parts.map((part) => part.outcome));
  await Promise.race([outcomes, Promise.all(parts.map((part) => part.ready))]);
  for (const part of parts) part.say("go");
  return outcomes;
}

/** `heard` is told what the process says on the way. */
export function startPart(
  measurement: Measurement,
  profileFolder: string | null,
  heard: (message: FromProcess) => void,
): Part {
  const profiling = profileFolder === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileFolder}`];
  const child = fork(entry, [JSON.stringify(measurement)], {
    execArgv: ["--conditions=millrace-source", "--no-warnings", ...profiling],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    // A dozen processes load the same sources: stripping their types each time takes longer than a quick measurement.
    env: { ...process.env, NODE_COMPILE_CACHE: compileCache },
  });
  running.add(child);
  const ready = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<Outcome>();
  const what = `${measurement.system} ${measurement.work}`;
  const late = setTimeout(() => child.kill("SIGKILL"), giveUpMs);
  child.on("message", (message: FromProcess) => {
    if (message.kind === "ready") ready.resolve();
    else if (message.kind === "done") outcome.resolve(message.outcome);
    else if (message.kind === "failed") outcome.reject(new Error(`${what} failed: ${message.message}`));
    else heard(message);
  });
  child.once("error", outcome.reject);
  child.once("exit", (code, signal) => {
    clearTimeout(late);
    running.delete(child);
    outcome.reject(new Error(`${what} ended without a result (${signal ?? `code ${code}`}).`));
  });
  const say = (word: ToProcess): void => {
    if (child.connected) child.send(word);
  };
  return { ready: ready.promise, outcome: outcome.promise, say };
}
