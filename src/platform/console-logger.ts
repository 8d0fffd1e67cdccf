/** The logger of an application that gives none: warnings and errors as one line each on standard error. */
interface ConsoleLogger {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

export const consoleLogger: ConsoleLogger = {
  debug() {},
  info() {},
  warn: (message, fields) => write("warn", message, fields),
  error: (message, fields) => write("error", message, fields),
};

function write(level: string, message: string, fields: Readonly<Record<string, unknown>> = {}): void {
  const shown = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${show(value)}`);
  process.stderr.write(`${escapeHidden(["millrace", level, message, ...shown].join(" "))}\n`);
}

function show(value: unknown): string {
  if (value instanceof Error) return JSON.stringify(`${value.name}: ${value.message}`);
  return JSON.stringify(value) ?? "undefined";
}

/** What nobody sees is escaped, so that no text of a job can move the reader's cursor, forge a line or reorder it. */
function escapeHidden(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (hidden) =>
    Array.from(hidden.split(""), (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
  );
}
