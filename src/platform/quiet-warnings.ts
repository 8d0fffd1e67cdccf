/**
 * Node 22 and 24 warn on standard error that their embedded SQLite is experimental. For a command that people run by
 * hand this is noise; a library leaves the warnings of its host alone.
 */

export function hideSqliteWarning(): void {
  const listeners = process.listeners("warning");
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    if (warning.name === "ExperimentalWarning" && warning.message.startsWith("SQLite ")) return;
    for (const listener of listeners) listener(warning);
  });
}
