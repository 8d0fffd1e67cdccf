/** What holds a ready job back, in a few words. */
import type { Held } from "../client/held.ts";
import { escapeText } from "./escape.ts";

export function heldText({ missing }: Held): string {
  return `no worker offers ${missing.map(escapeText).join(", ")}`;
}
