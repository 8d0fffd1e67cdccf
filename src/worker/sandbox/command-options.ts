/** The options of a handler that runs commands, and the settings that they become once they are checked. */
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { folderUnder } from "../../platform/folder-under.ts";
import { cpuCount } from "../../platform/node-platform.ts";
import { withControl } from "../control.ts";
import { bytesCeiling, mebibyte, readArgv, readEnv, readText } from "./sandbox-options.ts";

export interface CommandOptions<Result = unknown> {
  /** The programs that may be run: the first element of `argv` must be one of them. */
  allow?: readonly string[];
  /** A shell script instead of a program: `argv` are then its parameters $1, $2 and so on. */
  shell?: string;
  /** If the job's input is the command: the folder under which `cwd` must lie, and in which it runs without one. */
  root?: string;
  /** If the job's input is the command: the variables that `env` may set; none by default. */
  allowEnv?: readonly string[];
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

/** The input of a job whose handler is a `commandHandler` without a plan: the command itself. */
export interface CommandInput {
  /** The program, which the handler must allow, then its arguments; with `shell` the parameters of the script. */
  argv?: readonly string[];
  /** Variables, which the handler must allow. */
  env?: Readonly<Record<string, string>>;
  /** A folder, relative to the root of the handler. */
  cwd?: string;
  /** Its standard input; nothing by default. */
  stdin?: string | Uint8Array;
  /** How long it may take, at most as long as the handler says. */
  timeout?: Duration;
}

/** A plan with its time, from the input of the job. */
export interface TimedPlan extends CommandPlan {
  readonly timeoutMs?: number;
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
  readonly root: string | null;
  readonly allowEnv: ReadonlySet<string>;
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
  ...["allow", "shell", "root", "allowEnv", "size", "timeout", "exitCodes", "result"],
  ...["inheritEnv", "killGrace", "memoryBytesMax", "outputBytesMax"],
];

/** @param hasPlan whether code makes the command; otherwise the input of the job does. */
export function readCommandOptions(given: unknown, what: string, hasPlan: boolean): CommandSettings {
  const options = checkOptions(given, what, known);
  for (const name of ["root", "allowEnv"])
    if (hasPlan && options[name] !== undefined)
      throw invalidOption(
        `${what}: ${name} bounds the input of a handler without a plan; leave one of them out.`,
      );
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
    root: options["root"] === undefined ? null : readText(options["root"], `${what}: root`),
    allowEnv: new Set(options["allowEnv"] === undefined ? [] : readNames(options["allowEnv"], what)),
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

function readNames(names: unknown, what: string): readonly string[] {
  if (Array.isArray(names) && names.every((name) => typeof name === "string" && name !== "")) return names;
  throw invalidOption(`${what}: allowEnv must be a list of names of variables.`);
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

/**
 * The plan of a job whose input is the command. Whoever enqueues is trusted with no more than the options say, so what
 * they do not allow is refused, and finally: another attempt would be refused too.
 */
export async function planOfInput(
  input: unknown,
  what: string,
  settings: CommandSettings,
): Promise<TimedPlan> {
  const { root, allowEnv } = settings;
  const { plan, cwd, timed } = readInput(input, what, settings);
  const variable = Object.keys(plan.env ?? {}).find((name) => !allowEnv.has(name));
  if (variable !== undefined)
    throw notAllowed(`${what}: the variable ${JSON.stringify(variable)} is not in allowEnv.`);
  if (root === null) {
    if (cwd !== undefined) throw notAllowed(`${what}: cwd needs a root, which the handler does not name.`);
    return { ...plan, ...timed };
  }
  const folder = await folderUnder(root, cwd ?? ".");
  if (folder === null)
    throw notAllowed(
      `${what}: the folder ${JSON.stringify(cwd ?? ".")} is not there, or not under the root.`,
    );
  return { ...plan, ...timed, cwd: folder };
}

interface ReadInput {
  readonly plan: CommandPlan;
  readonly cwd: string | undefined;
  readonly timed: Pick<TimedPlan, "timeoutMs">;
}

function readInput(input: unknown, what: string, { shell }: CommandSettings): ReadInput {
  try {
    const { timeout, cwd, ...rest } = checkOptions(input, what, ["argv", "env", "cwd", "stdin", "timeout"]);
    return {
      plan: readCommandPlan(rest, what, shell !== null),
      cwd: cwd === undefined ? undefined : readText(cwd, `${what}: cwd`),
      timed: timeout === undefined ? {} : { timeoutMs: durationMs(timeout, `${what}: timeout`) },
    };
  } catch (error) {
    throw withControl(error as Error, { kind: "unrecoverable" });
  }
}

/** The refusal is final, because the next attempt would ask for the same. */
export function notAllowed(sentence: string): Error {
  return withControl(new MillraceError("command-not-allowed", sentence), { kind: "unrecoverable" });
}
