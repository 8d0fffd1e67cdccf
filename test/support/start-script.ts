/**
 * A script of the tests as a process of its own that tells what it does line by line, and can be killed at any moment.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterEach } from "vitest";

export interface StartedScript {
  /** Resolves with the first line. */
  readonly spoke: Promise<unknown>;
  readonly signal: (name: NodeJS.Signals) => void;
  /** Kill -9; resolves when the process is gone and all its lines were heard. */
  readonly kill: () => Promise<void>;
}

/** @param heard is told each line. */
export function startScript(
  script: string,
  args: readonly string[],
  heard: (line: string) => void,
): StartedScript {
  const child = spawn(process.execPath, ["--conditions=millrace-source", script, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const lines = createInterface({ input: child.stdout });
  const closed = once(lines, "close");
  const spoke = once(lines, "line");
  lines.on("line", heard);
  return {
    spoke,
    signal: (name) => void child.kill(name),
    kill: async () => {
      child.kill("SIGKILL");
      await Promise.all([exited, closed]);
    },
  };
}

/** @returns the same function; what it has started is killed after each test, passed or not. */
export function killAfterEach<Given extends readonly unknown[], Started extends Pick<StartedScript, "kill">>(
  start: (...given: Given) => Started,
): (...given: Given) => Started {
  const started: Started[] = [];
  afterEach(() => Promise.all(started.splice(0).map(({ kill }) => kill())));
  return (...given) => {
    const one = start(...given);
    started.push(one);
    return one;
  };
}
