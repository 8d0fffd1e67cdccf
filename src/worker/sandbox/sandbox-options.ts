/** The options of a sandboxed handler, and the settings that they become once they are checked. */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob, JobDefinition } from "../../engine/submit/job-definition.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { cpuCount } from "../../platform/node-platform.ts";
import type { SandboxLimits } from "./sandbox.ts";

/** Options of every sandbox: a thread or a child process that runs handlers. */
export interface SandboxOptions {
  /**
   * How many sandboxes the handler may have, and so how many of its jobs run at once in this worker; the number of CPUs
   * by default, and never more than the queue's slots.
   */
  size?: number;
  /** The jobs that the handler may enqueue, besides its own. */
  jobs?: readonly AnyJob[];
  /** Variables that are added to its environment. */
  env?: Readonly<Record<string, string>>;
  /** Whether it gets the environment of this process; otherwise it gets only PATH, HOME, LANG, TZ and the like. */
  inheritEnv?: boolean;
  /** How long it may take to be ready; 30 s by default. */
  startTimeout?: Duration;
  /** How long it may take to stop after an abort before all its processes are killed; 5 s by default. */
  killGrace?: Duration;
  /**
   * The maximum of memory: the heap of a thread, or all processes of a child; 1 GiB by default. A sandbox that exceeds
   * it is ended and its job fails.
   */
  memoryBytesMax?: number;
  /**
   * The maximum of bytes printed in one run; 16 MiB by default. A sandbox that exceeds it is ended and its job fails.
   */
  outputBytesMax?: number;
  /** The maximum length of a message; 32 MiB by default. A sandbox that exceeds it is ended and its job fails. */
  lineBytesMax?: number;
  /** When it is replaced by a new one, between two jobs. */
  recycle?: RecycleOptions;
}

export interface RecycleOptions {
  /** After N jobs; 10,000 by default. */
  jobs?: number;
  /** When it uses more memory than this; half of `memoryBytesMax` by default. */
  memoryBytes?: number;
}

export interface FileHandlerOptions extends SandboxOptions {
  /** The file whose default export is the handler: `new URL("./resize.ts", import.meta.url)`. */
  file: URL | string;
  /**
   * In a thread, in a child process, or in the worker's own event loop ("inline", for tests; the options of sandboxes
   * have no effect then). "thread" by default.
   */
  run?: "thread" | "process" | "inline";
}

export interface ProgramHandlerOptions extends SandboxOptions {
  /** A program and its arguments, in any language. It speaks the line protocol on its standard input and output. */
  program: readonly string[];
  cwd?: string;
}

export interface SandboxSettings {
  readonly run: "thread" | "process" | "inline" | "program";
  readonly file: URL | null;
  readonly program: readonly string[];
  readonly cwd: string | null;
  readonly size: number;
  readonly jobs: ReadonlyMap<string, JobDefinition>;
  readonly env: Readonly<Record<string, string>>;
  readonly inheritsEnv: boolean;
  readonly limits: SandboxLimits;
  readonly recycleJobs: number;
  readonly recycleBytes: number;
}

const sharedKeys = [
  ...["size", "jobs", "env", "inheritEnv", "startTimeout", "killGrace"],
  ...["memoryBytesMax", "outputBytesMax", "lineBytesMax", "recycle"],
];
export const mebibyte = 1024 * 1024;
export const bytesCeiling = 1024 * 1024 * mebibyte;
const sizeMax = 1000;

/** The function that makes it. */
export type SandboxKind = "fileHandler" | "programHandler";

export function readSandboxOptions(definition: AnyJob, made: SandboxKind, given: object): SandboxSettings {
  const what = `${made}(${JSON.stringify(definition.name)})`;
  const isProgram = made === "programHandler";
  const kindKeys = isProgram ? ["program", "cwd"] : ["file", "run"];
  const options = checkOptions(given, what, [...kindKeys, ...sharedKeys]);
  const limits = readLimits(options, what);
  const recycle = checkOptions(options["recycle"] ?? {}, `${what}: recycle`, ["jobs", "memoryBytes"]);
  const half = Math.floor(limits.memoryBytesMax / 2);
  return {
    run: isProgram ? "program" : readRun(options["run"] ?? "thread", what),
    file: isProgram ? null : readFile(options["file"], what),
    program: isProgram ? readArgv(options["program"], `${what}: program`) : [],
    cwd: options["cwd"] === undefined ? null : readText(options["cwd"], `${what}: cwd`),
    size: readSize(options, what),
    jobs: readJobs(definition, options["jobs"] ?? [], what),
    env: readEnv(options["env"], what),
    inheritsEnv: checkBoolean(options["inheritEnv"] ?? !isProgram, `${what}: inheritEnv`),
    limits,
    recycleJobs: checkWhole(recycle["jobs"] ?? 10_000, `${what}: recycle.jobs`, 1, Number.MAX_SAFE_INTEGER),
    recycleBytes: checkWhole(recycle["memoryBytes"] ?? half, `${what}: recycle.memoryBytes`, 1, bytesCeiling),
  };
}

function readLimits(options: Readonly<Record<string, unknown>>, what: string): SandboxLimits {
  const bytes = (key: string, byDefault: number): number =>
    checkWhole(options[key] ?? byDefault, `${what}: ${key}`, 1024, bytesCeiling);
  return {
    startTimeoutMs: durationMs(options["startTimeout"] ?? 30_000, `${what}: startTimeout`),
    killGraceMs: durationMs(options["killGrace"] ?? 5000, `${what}: killGrace`),
    memoryBytesMax: bytes("memoryBytesMax", 1024 * mebibyte),
    outputBytesMax: bytes("outputBytesMax", 16 * mebibyte),
    lineBytesMax: bytes("lineBytesMax", 32 * mebibyte),
  };
}

/** The option, else the number of CPUs. In the worker's own event loop only the slots of the queue bound it. */
function readSize({ size, run }: Readonly<Record<string, unknown>>, what: string): number {
  if (size === undefined) return run === "inline" ? Number.POSITIVE_INFINITY : cpuCount;
  return checkWhole(size, `${what}: size`, 1, sizeMax);
}

function readRun(run: unknown, what: string): "thread" | "process" | "inline" {
  if (run === "thread" || run === "process" || run === "inline") return run;
  throw invalidOption(`${what}: run must be "thread", "process" or "inline".`);
}

function readFile(file: unknown, what: string): URL {
  const address = typeof file === "string" && isAbsolute(file) ? pathToFileURL(file) : file;
  const url = typeof address === "string" && URL.canParse(address) ? new URL(address) : address;
  if (url instanceof URL && url.protocol === "file:") return url;
  throw invalidOption(
    `${what}: file must be the address of a file: new URL("./resize.ts", import.meta.url), or an absolute path.`,
  );
}

function readJobs(own: AnyJob, jobs: unknown, what: string): ReadonlyMap<string, JobDefinition> {
  if (!Array.isArray(jobs)) throw invalidOption(`${what}: jobs must be a list of jobs made by job().`);
  for (const each of jobs) checkDefinition(each, `${what}: jobs`);
  const all = [own, ...(jobs as readonly AnyJob[])];
  return new Map(all.map((definition) => [definition.name, definition as unknown as JobDefinition]));
}

export function readEnv(env: unknown, what: string): Readonly<Record<string, string>> {
  if (env === undefined) return {};
  const isPlain = typeof env === "object" && env !== null && !Array.isArray(env);
  const isRight = ([name, value]: [string, unknown]): boolean =>
    name !== "" && !/[=\0]/.test(name) && typeof value === "string" && !value.includes("\0");
  if (isPlain && Object.entries(env).every(isRight)) return env as Readonly<Record<string, string>>;
  throw invalidOption(`${what}: env must be an object of texts.`);
}

/** A program and its arguments. */
export function readArgv(argv: unknown, what: string): readonly string[] {
  const isText = (each: unknown): boolean => typeof each === "string" && !each.includes("\0");
  if (Array.isArray(argv) && argv.length > 0 && argv.every(isText) && argv[0] !== "") return argv;
  throw invalidOption(`${what} must be a list of texts: the program, then its arguments.`);
}

export function readText(text: unknown, what: string): string {
  if (typeof text === "string" && text !== "" && !text.includes("\0")) return text;
  throw invalidOption(`${what} must be a text.`);
}
