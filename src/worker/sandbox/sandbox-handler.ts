/**
 * From options to a handler whose code runs in a thread, a child process or a program: to the worker a handler like any
 * other, which awaits what its crew brings back. Each engine has a crew of its own.
 */
import { fileURLToPath } from "node:url";
import type { AnyJob, JobDefinition } from "../../engine/submit/job-definition.ts";
import type { Engine } from "../../engine/engine.ts";
import { MillraceError } from "../../model/error.ts";
import { nodeArgv, startChild } from "../../platform/child-process.ts";
import { entryFileBeside } from "../../platform/entry-file.ts";
import type { Link, LinkListener } from "../../platform/child-handle.ts";
import { startThread } from "../../platform/thread.ts";
import type { Elsewhere, SingleHandler } from "../handler.ts";
import { JobContext } from "../run/job-context.ts";
import { Crew } from "./sandbox-pool.ts";
import { mebibyte, readElsewhereOptions } from "./sandbox-options.ts";
import type { ElsewhereSettings } from "./sandbox-options.ts";
import { loadHandler } from "./load-handler.ts";
import type { LoadedHandler } from "./load-handler.ts";

export function elsewhereHandler(definition: AnyJob, options: object): SingleHandler {
  const settings = readElsewhereOptions(definition, options);
  const kept = { kind: "single", definition: definition as unknown as JobDefinition } as const;
  return settings.run === "inline"
    ? { ...kept, ...inline(settings) }
    : { ...kept, ...crewed(definition.name, settings) };
}

type Way = Pick<SingleHandler, "handle"> & { readonly elsewhere: Elsewhere };

function inline({ file, size }: ElsewhereSettings): Way {
  let loaded: Promise<LoadedHandler> | null = null;
  const load = (): Promise<LoadedHandler> => (loaded ??= loadHandler(file as URL));
  return {
    handle: async (context) => (await load())(context),
    elsewhere: { size, ahead: () => 0, open: async () => (await load(), async () => {}) },
  };
}

function crewed(name: string, settings: ElsewhereSettings): Way {
  const crews = new WeakMap<Engine, Crew>();
  const { size, file, jobs, limits, recycleJobs, recycleBytes } = settings;
  const what = `the ${settings.run} of the handler of ${JSON.stringify(name)}`;
  const crewOf = (engine: Engine): Crew => {
    let crew = crews.get(engine);
    if (crew === undefined) {
      const link = linkOf(settings);
      crew = new Crew(engine, { what, size, file, jobs, limits, recycleJobs, recycleBytes, link });
      crews.set(engine, crew);
    }
    return crew;
  };
  return {
    handle: (context) => crewOf(JobContext.insideOf(context).engine).run(context),
    elsewhere: {
      size,
      ahead: (engine) => crews.get(engine)?.ahead ?? 0,
      open: async (engine) => crewOf(engine).open(),
    },
  };
}

function linkOf(settings: ElsewhereSettings): (listener: LinkListener) => Link {
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

/** The file that a thread or a child process begins with. */
function entryFile(run: string): URL {
  const found = entryFileBeside(import.meta.url, "sandbox-main");
  if (found.missing === undefined) return found.file;
  throw new MillraceError(
    "invalid-option",
    `run: ${JSON.stringify(run)} needs the file ${found.missing} of Millrace, which is not there: this program was bundled. Keep millrace out of the bundle (as an external package).`,
  );
}
