/**
 * Checks the version of Node.js. Older versions lack the embedded database and parts of the language, and would fail
 * with a confusing error.
 */
import { MillraceError } from "./error.ts";

export function checkNodeVersion(version: string): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return;
  throw new MillraceError(
    "unsupported-node",
    `This is Node.js ${version}; Millrace needs 22.18 or newer. Upgrade Node.js.`,
  );
}
