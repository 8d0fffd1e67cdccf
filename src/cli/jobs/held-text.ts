/** What holds a ready job back, in a few words. */
import type { Held } from "../../client/explain/held-view.ts";
import { escapeText } from "../output/escape.ts";

export function heldText(held: Held): string {
  if (held.by === "capability") return `no worker offers ${held.missing.map(escapeText).join(", ")}`;
  const name = escapeText(held.name);
  if (held.by === "pause") return `the queue ${name} is paused`;
  const use = held.use === null ? "" : ` (${held.use.held} of ${held.use.cap})`;
  const key = held.key === undefined ? "" : escapeText(held.key);
  if (held.by === "group") return `its group ${key}${use}`;
  if (held.by === "queue") return `the bounds of the queue ${name}${use}`;
  return `the ${held.by} ${name}${key === "" ? "" : ` for ${key}`}${use}`;
}
