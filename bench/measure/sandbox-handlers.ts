/**
 * Handlers in sandboxes, as the works `thread`, `process` and `pool` measure them: the same files for every
 * system.
 */
import { fileURLToPath } from "node:url";
import type { AnyJob } from "../../src/engine/submit/job-definition.ts";
import { fileHandler, programHandler } from "../../src/worker/sandbox/sandbox-handler.ts";
import type { Handler } from "../../src/worker/handler.ts";
import type { Mode } from "../figures.ts";
import type { JobKind } from "./job-kind.ts";

export type SandboxKind = Extract<JobKind, "thread" | "process" | "pool">;

export function isSandboxed(kind: JobKind): kind is SandboxKind {
  return kind === "thread" || kind === "process" || kind === "pool";
}

const fileOf = (name: string): string => fileURLToPath(new URL(`../handlers/${name}.mjs`, import.meta.url));

/** The file whose default export is the handler. */
export function handlerFile(mode: Mode): string {
  return fileOf(mode === "busy" ? "busy" : "no-op");
}

export function sandboxHandler(definition: AnyJob, kind: SandboxKind, mode: Mode): Handler {
  if (kind !== "pool") return fileHandler(definition, { file: handlerFile(mode), run: kind });
  return programHandler(definition, { program: [process.execPath, fileOf("line-program"), mode] });
}
