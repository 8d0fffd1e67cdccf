/**
 * The versions of what is measured, as their packages say. Read as files: not every package lets its package.json be
 * imported.
 */
import { readFileSync } from "node:fs";
import type { SystemName } from "./figures.ts";

export function versionOf(system: SystemName): string {
  const path = system.startsWith("millrace") ? "../package.json" : `../node_modules/${system}/package.json`;
  const { version } = JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8")) as { version: string };
  return version;
}
