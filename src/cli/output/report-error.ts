/**
 * How a command ends badly: one line on standard error, or with `--json` the error as the one document on standard
 * output. Exit 2 for wrong usage, with a hint; exit 1 for everything else.
 */
import { isMillraceError } from "../../model/error.ts";
import type { ErrorCode } from "../../model/error.ts";
import type { Terminal } from "../../platform/terminal.ts";
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
  for (const line of stackOf(error)) terminal.writeErr(`${escapeText(line)}\n`);
  return isUsage ? 2 : 1;
}

const stackLinesMax = 12;

/**
 * The stack of an error without a code, which is a bug of Millrace, for the bug report; and that of the error in the
 * user's own file if it cannot be loaded. Node puts the place of a syntax error above the message; its own frames say
 * nothing about either.
 */
function stackOf(error: unknown): readonly string[] {
  const shown = isMillraceError(error, "no-handlers") ? error.cause : isMillraceError(error) ? null : error;
  if (!(shown instanceof Error)) return [];
  const lines = (shown.stack ?? "").split("\n");
  const [firstLine = ""] = shown.message.split("\n");
  const place = lines.slice(
    0,
    Math.max(
      0,
      lines.findIndex((line) => line.includes(firstLine)),
    ),
  );
  const frames = lines.filter((line) => /^\s+at /.test(line) && !line.includes("node:internal/"));
  return [...place.filter((line) => line.trim() !== ""), ...frames].slice(0, stackLinesMax);
}
