/**
 * The version of this package, read from its package.json, which lies two folders up both in src/ and in the built
 * dist/.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export function packageVersion(): string {
  const text = readFileSync(join(import.meta.dirname, "..", "..", "package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
