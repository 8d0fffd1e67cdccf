/** Times for people: short durations, and instants in UTC so that two readers see the same text. */

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** "250ms", "3.2s", "4m 5s", "2h 3m": the two largest units. */
export function formatMs(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toString()}s`;
  const at = units.findIndex(([, unitMs]) => ms >= unitMs);
  const [name, unitMs] = units[at] as (typeof units)[number];
  const count = Math.floor(ms / unitMs);
  const [restName, restMs] = units[at + 1] as (typeof units)[number];
  const rest = Math.floor((ms - count * unitMs) / restMs);
  return rest === 0 ? `${count}${name}` : `${count}${name} ${rest}${restName}`;
}

export function formatAge(at: Date, now: number): string {
  const ms = now - at.getTime();
  return ms >= 0 ? `${formatMs(ms)} ago` : `in ${formatMs(-ms)}`;
}

/** "2026-01-31 12:00:00.123Z" */
export function formatInstant(at: Date): string {
  return at.toISOString().replace("T", " ");
}
