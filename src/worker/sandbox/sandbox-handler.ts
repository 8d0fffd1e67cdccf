/**
 * Makes a handler whose code runs in a thread, a child process or a program. For the worker it is a handler like any
 * other, which awaits the answer of its sandbox pool. Each store that a process works on has a pool of its own.
 */
import { fileURLToPath } from "node:url";
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob, JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Needs } from "../../engine/services.ts";
import type { Store } from "../../store/store.ts";
import { MillraceError } from "../../model/error.ts";
import { nodeArgv, startChild } from "../../platform/child-process.ts";
import { entryFileBeside } from "../../platform/entry-file.ts";
import type { ChildHandle, ChildListener } from "../../platform/child-handle.ts";
import { startThread } from "../../platform/thread.ts";
import type { HandlerSandbox, SingleHandler } from "../handler.ts";
import { refuseDurable } from "../durable/durable-handler.ts";
import { JobContext } from "../run/job-context.ts";
import { SandboxPool } from "./sandbox-pool.ts";
import { mebibyte, readSandboxOptions } from "./sandbox-options.ts";
import type {
  FileHandlerOptions,
  ProgramHandlerOptions,
  SandboxKind,
  SandboxSettings,
} from "./sandbox-options.ts";
import { loadHandler } from "./load-handler.ts";
import type { LoadedHandler } from "./load-handler.ts";

/**
 * A handler whose code is the default export of a file, and runs in threads or child processes of the worker.
 *
 * @example fileHandler(resize, { file: new URL("./resize.ts", import.meta.url), run: "process" })
 */
export function fileHandler(definition: AnyJob, options: FileHandlerOptions): SingleHandler {
  return sandboxHandler(definition, "fileHandler", options);
}

/**
 * A handler that is a program in any language: docs/guides/sandboxes.md has what the two say to each other.
 *
 * @example programHandler(countWords, { program: ["python3", "count_words.py"] })
 */
export function programHandler(definition: AnyJob, options: ProgramHandlerOptions): SingleHandler {
  return sandboxHandler(definition, "programHandler", options);
}

function sandboxHandler(definition: AnyJob, made: SandboxKind, options: object): SingleHandler {
  checkDefinition(definition, made);
  const settings = readSandboxOptions(definition, made, options);
  refuseDurable(definition, `${made}(${JSON.stringify(definition.name)})`);
  const kept = { kind: "single", definition: definition as unknown as JobDefinition } as const;
  return settings.run === "inline"
    ? { ...kept, ...inline(settings) }
    : { ...kept, ...pooled(definition.name, settings) };
}

type Way = Pick<SingleHandler, "handle"> & { readonly sandbox: HandlerSandbox };

function inline({ file, size }: SandboxSettings): Way {
  let loaded: Promise<LoadedHandler> | null = null;
  const load = (): Promise<LoadedHandler> => (loaded ??= loadHandler(file as URL));
  return {
    handle: async (context) => (await load())(context),
    sandbox: {
      ...{ startsChildren: false, size, ahead: () => 0 },
      open: async () => (await load(), async () => {}),
    },
  };
}

function pooled(name: string, settings: SandboxSettings): Way {
  /** One for each store that this process works on. */
  const pools = new WeakMap<Store, SandboxPool>();
  const { size, file, jobs, limits, recycleJobs, recycleBytes } = settings;
  const what = `the ${settings.run} of the handler of ${JSON.stringify(name)}`;
  const poolOf = (needs: Needs<"store" | "log">): SandboxPool => {
    let pool = pools.get(needs.store);
    if (pool === undefined) {
      const spawn = spawnOf(settings);
      pool = new SandboxPool(needs, { what, size, file, jobs, limits, recycleJobs, recycleBytes, spawn });
      pools.set(needs.store, pool);
    }
    return pool;
  };
  return {
    handle: (context) => poolOf(JobContext.insideOf(context).needs).run(context),
    sandbox: {
      startsChildren: settings.run !== "thread",
      size,
      ahead: ({ store }) => pools.get(store)?.ahead ?? 0,
      open: async (needs) => poolOf(needs).open(),
    },
  };
}

function spawnOf(settings: SandboxSettings): (listener: ChildListener) => ChildHandle {
  const { run, program, cwd, env, inheritsEnv, limits } = settings;
  const { memoryBytesMax } = limits;
  if (run === "program") {
    const where = cwd === null ? {} : { cwd };
    return (listener) => startChild({ argv: program, ...where, env, inheritsEnv, line: "stdio" }, listener);
  }
  const file = entryFile(run);
  if (run === "thread")
    return (listener) => startThread({ file, env, inheritsEnv, heapBytesMax: memoryBytesMax }, listener);
  const heap = `--max-old-space-size=${Math.ceil(memoryBytesMax / mebibyte)}`;
  const argv = nodeArgv(fileURLToPath(file), [heap]);
  return (listener) => startChild({ argv, env, inheritsEnv, line: "own" }, listener);
}

/** The entry file of a thread or a child process. */
function entryFile(run: string): URL {
  const found = entryFileBeside(import.meta.url, "sandbox-main");
  if (found.missing === undefined) return found.file;
  throw new MillraceError(
    "invalid-option",
    `run: ${JSON.stringify(run)} needs the file ${found.missing} of Millrace, which is not there: this program was bundled. Keep millrace out of the bundle (as an external package).`,
  );
}
