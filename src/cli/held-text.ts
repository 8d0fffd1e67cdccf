/** What holds a ready job back, in a few words. */
import type { Held } from "../client/held.ts";

const titles = { pause: "the pause of", limit: "the limit", queue: "the bounds of" } as const;

export function heldText({ by, name, use }: Held): string {
  return `${titles[by]} ${name}${use === null ? "" : ` (${use.held} of ${use.cap})`}`;
}
