/** The options of a handler that runs commands, and the settings that they become once they are checked. */
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { cpuCount } from "../../platform/node-platform.ts";
import { bytesCeiling, mebibyte, readArgv, readEnv, readText } from "./sandbox-options.ts";

export interface CommandOptions<Result = unknown> {
  /** The programs that may be run: the first element of `argv` must be one of them. */
  allow?: readonly string[];
  /** A shell script instead of a program: `argv` are then its parameters $1, $2 and so on. */
  shell?: string;
  /**
   * How many of its commands run at once in this worker; the number of CPUs by default, and never more than the queue's
   * slots.
   */
  size?: number;
  /** How long a command may take. Default: the timeout of the job, or 10 min if the job has none. */
  timeout?: Duration;
  /** The exit codes that mean success; 0 by default. */
  exitCodes?: readonly number[];
  /** Makes the result of the job; by default there is none. It may throw or return a control outcome. */
  result?: (ended: EndedCommand) => Result | Promise<Result>;
  /**
   * Whether commands get the environment of this process; otherwise they get only PATH, HOME, LANG, TZ and the like.
   */
  inheritEnv?: boolean;
  /** How long a command may take to end after SIGTERM before all its processes are killed; 5 s by default. */
  killGrace?: Duration;
  /**
   * The maximum of memory of a command, with all its processes; 1 GiB by default. A command that exceeds it is ended.
   */
  memoryBytesMax?: number;
  /** The maximum of bytes that a command may print; 16 MiB by default. A command that exceeds it is ended. */
  outputBytesMax?: number;
}

/** The command for one job. No shell reads it: a text with spaces or quotes stays one argument. */
export interface CommandPlan {
  /** The program, then its arguments; with `shell` the parameters of the script. */
  argv?: readonly string[];
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  /** Its standard input; nothing by default. */
  stdin?: string | Uint8Array;
}

export interface EndedCommand {
  readonly exitCode: number;
  /** Everything that it printed. */
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandSettings {
  readonly allow: ReadonlySet<string>;
  readonly shell: string | null;
  readonly size: number;
  readonly timeoutMs: number | null;
  readonly exitCodes: ReadonlySet<number>;
  readonly result: ((ended: EndedCommand) => unknown) | null;
  readonly inheritsEnv: boolean;
  readonly killGraceMs: number;
  readonly memoryBytesMax: number;
  readonly outputBytesMax: number;
}

const known = [
  ...["allow", "shell", "size", "timeout", "exitCodes", "result"],
  ...["inheritEnv", "killGrace", "memoryBytesMax", "outputBytesMax"],
];

export function readCommandOptions(given: unknown, what: string): CommandSettings {
  const options = checkOptions(given, what, known);
  const { allow, shell, timeout, result } = options;
  if ((allow === undefined) === (shell === undefined))
    throw invalidOption(`${what}: give the programs that may be run as allow, or a script as shell.`);
  if (result !== undefined && typeof result !== "function")
    throw invalidOption(`${what}: result must be a function.`);
  const bytes = (key: string, byDefault: number): number =>
    checkWhole(options[key] ?? byDefault, `${what}: ${key}`, 1024, bytesCeiling);
  return {
    allow: new Set(allow === undefined ? [] : readArgv(allow, `${what}: allow`)),
    shell: shell === undefined ? null : readText(shell, `${what}: shell`),
    size: checkWhole(options["size"] ?? cpuCount, `${what}: size`, 1, 1000),
    timeoutMs: timeout === undefined ? null : durationMs(timeout, `${what}: timeout`),
    exitCodes: readExitCodes(options["exitCodes"] ?? [0], what),
    result: (result as CommandSettings["result"]) ?? null,
    inheritsEnv: checkBoolean(options["inheritEnv"] ?? false, `${what}: inheritEnv`),
    killGraceMs: durationMs(options["killGrace"] ?? 5000, `${what}: killGrace`),
    memoryBytesMax: bytes("memoryBytesMax", 1024 * mebibyte),
    outputBytesMax: bytes("outputBytesMax", 16 * mebibyte),
  };
}

function readExitCodes(codes: unknown, what: string): ReadonlySet<number> {
  if (!Array.isArray(codes)) throw invalidOption(`${what}: exitCodes must be a list of numbers.`);
  return new Set(codes.map((code) => checkWhole(code, `${what}: exitCodes`, 0, 255)));
}

/** A plan may contain anything, because the handler may pass on values of its job. */
export function readCommandPlan(given: unknown, what: string, hasShell: boolean): CommandPlan {
  const { argv, env, cwd, stdin } = checkOptions(given, what, ["argv", "env", "cwd", "stdin"]);
  if (stdin !== undefined && typeof stdin !== "string" && !(stdin instanceof Uint8Array))
    throw invalidOption(`${what}: stdin must be a text or bytes.`);
  const isText = (each: unknown): boolean => typeof each === "string" && !each.includes("\0");
  if (hasShell && argv !== undefined && !(Array.isArray(argv) && argv.every(isText)))
    throw invalidOption(`${what}: argv must be a list of texts.`);
  return {
    argv: hasShell ? ((argv as readonly string[] | undefined) ?? []) : readArgv(argv, `${what}: argv`),
    env: readEnv(env, what),
    ...(cwd === undefined ? {} : { cwd: readText(cwd, `${what}: cwd`) }),
    ...(stdin === undefined ? {} : { stdin }),
  };
}
