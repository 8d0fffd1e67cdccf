/**
 * The config file: `--config`, else MILLRACE_CONFIG, else `millrace.config.ts`, `.mts`, `.js` or `.mjs` in the present
 * folder. Every command that opens a store reads it, so that all of them open the same store with the same options.
 */
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Declared, MillraceConfig } from "../client/millrace-config.ts";
import { readConfig } from "../client/millrace-config.ts";
import { MillraceError } from "../model/error.ts";
import { importFile, loadDeclared } from "./load-declared.ts";

const names = ["ts", "mts", "js", "mjs"].map((ending) => `millrace.config.${ending}`);

export interface LoadedConfig {
  readonly file: string;
  readonly config: MillraceConfig;
}

/** @param named by the option or the environment. @returns null if there is none. */
export async function loadConfig(named: string | undefined): Promise<LoadedConfig | null> {
  const file = named ?? names.find((name) => existsSync(name));
  if (file === undefined) return null;
  const exported = await importFile(file, "invalid-option");
  if (!("default" in exported))
    throw new MillraceError(
      "invalid-option",
      `${JSON.stringify(file)} has no default export; write: export default defineConfig({ store: "sqlite:./jobs.db" }).`,
    );
  return { file, config: readConfig(exported["default"], file) };
}

/** What a command that needs handlers works with: the file that it was given, else what the config declares. */
export async function declaredBy(file: string | undefined, loaded: LoadedConfig | null): Promise<Declared> {
  if (file !== undefined) return loadDeclared(file);
  const { handlers, schedules = [], subscriptions = [], queues = [] } = loaded?.config ?? {};
  if (loaded === null || handlers === undefined)
    throw new MillraceError(
      "no-handlers",
      "No handlers are named: give a file that exports them, or a millrace.config.ts with handlers.",
    );
  if (typeof handlers !== "string") return { handlers, schedules, subscriptions, queues };
  const declared = await loadDeclared(resolve(dirname(loaded.file), handlers));
  return {
    handlers: declared.handlers,
    schedules: [...new Set([...declared.schedules, ...schedules])],
    subscriptions: [...new Set([...declared.subscriptions, ...subscriptions])],
    queues: [...new Set([...declared.queues, ...queues])],
  };
}
