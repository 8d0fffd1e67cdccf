/** What holds a ready job back, in a few words. */
import type { Held } from "../client/held.ts";
import { escapeText } from "./escape.ts";

export function heldText(held: Held): string {
  if (held.by === "capability") return `no worker offers ${held.missing.map(escapeText).join(", ")}`;
  const name = escapeText(held.name);
  if (held.by === "pause") return `the queue ${name} is paused`;
  const use = held.use === null ? "" : ` (${held.use.held} of ${held.use.cap})`;
  return held.by === "limit" ? `the limit ${name}${use}` : `the bounds of the queue ${name}${use}`;
}
