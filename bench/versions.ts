/** The versions of what is measured, as their packages say. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { SystemName } from "./figures.ts";

const require = createRequire(import.meta.url);

export function versionOf(system: SystemName): string {
  const file = system === "millrace" ? "../package.json" : `${system}/package.json`;
  const { version } = JSON.parse(readFileSync(require.resolve(file), "utf8")) as { version: string };
  return version;
}
