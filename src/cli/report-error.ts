/**
 * How a command ends badly: one line on standard error, or with `--json` the error as the one document on standard
 * output. Exit 2 for wrong usage, with a hint; exit 1 for everything else.
 */
import { isMillraceError } from "../model/error.ts";
import type { ErrorCode } from "../model/error.ts";
import type { Terminal } from "../platform/terminal.ts";
import { escapeText } from "./escape.ts";
import { toJson } from "./print-json.ts";

const usageCodes: readonly ErrorCode[] = [
  "invalid-option",
  "invalid-name",
  "invalid-duration",
  "unknown-store",
];

export function reportError(
  terminal: Terminal,
  error: unknown,
  { hint, wantsJson }: { readonly hint: string; readonly wantsJson: boolean },
): 1 | 2 {
  const known = isMillraceError(error) ? error : null;
  const code = known?.code ?? "unexpected";
  const message =
    known?.message ?? (error instanceof Error ? `${error.name}: ${error.message}` : String(error));
  const isUsage = known !== null && usageCodes.includes(known.code);
  if (wantsJson) {
    const { retryable = false, outcome = "unknown" } = known ?? {};
    terminal.writeOut(`${toJson({ error: { code, message, retryable, outcome } })}\n`);
    return isUsage ? 2 : 1;
  }
  terminal.writeErr(`millrace: ${code}: ${escapeText(message)}\n`);
  if (isUsage) terminal.writeErr(`Try: ${hint}\n`);
  // An error without a code is a bug of Millrace, so its stack is printed for the bug report.
  if (known === null && error instanceof Error) {
    for (const line of (error.stack ?? "").split("\n").slice(1, 9))
      terminal.writeErr(`${escapeText(line)}\n`);
  }
  return isUsage ? 2 : 1;
}
