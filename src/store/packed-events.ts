/**
 * The packed body of a feed record, as every store puts it together: events that differ only in their job are one group.
 *
 *  body   group RS group RS ...        group   event code US rev US route US state code US attempt US extra US id US id ...
 *  extra  nothing, "n" and a number, or "s" and a packed text; state is empty once the job was removed
 */
import { eventOfCode } from "../model/event-kind.ts";
import { stateOfCode } from "../model/job-state.ts";
import { hintEvent } from "./hints.ts";
import type { CodedEvent, Hints } from "./hints.ts";
import { escapeMark, fieldEnd, itemEnd, packText, unpackText } from "./packed-text.ts";
import type { FeedEvent } from "./records.ts";

/** Events that differ only in their job. */
export interface EventGroup extends CodedEvent {
  readonly rev: number;
  readonly attempt: number;
}

export function packEvents(groups: readonly EventGroup[]): string {
  return groups.map(packGroup).join(itemEnd);
}

function packGroup({ kind, rev, route, state, attempt, extra, ids }: EventGroup): string {
  return [kind, rev, route, state ?? "", attempt, packExtra(extra), ...ids.map(packText)].join(fieldEnd);
}

function packExtra(extra: string | number | null): string {
  if (extra === null) return "";
  return typeof extra === "number" ? `n${extra}` : `s${packText(extra)}`;
}

function groupsOf(packed: string): EventGroup[] {
  if (packed === "") return [];
  const isEscaped = packed.includes(escapeMark);
  return packed.split(itemEnd).map((group) => {
    const [kind, rev, route, state, attempt, extra = "", ...ids] = group.split(fieldEnd);
    return {
      kind: Number(kind),
      rev: Number(rev),
      route: Number(route),
      state: state === "" ? null : Number(state),
      attempt: Number(attempt),
      extra: readExtra(extra),
      ids: isEscaped ? ids.map(unpackText) : ids,
    };
  });
}

function readExtra(extra: string): string | number | null {
  if (extra === "") return null;
  return extra.startsWith("n") ? Number(extra.slice(1)) : unpackText(extra.slice(1));
}

export function readEvents(packed: string): FeedEvent[] {
  return groupsOf(packed).flatMap(({ kind, rev, route, state, attempt, extra, ids }) => {
    const told = {
      kind: eventOfCode(kind),
      rev,
      route,
      state: state === null ? null : stateOfCode(state),
      attempt,
      extra,
    };
    return ids.map((id) => ({ ...told, id }));
  });
}

/** Adds what follows from packed events. `now` is the time of the call that told them. */
export function hintEvents(hints: Hints, packed: string, now: number): void {
  for (const group of groupsOf(packed)) hintEvent(hints, group, now);
}
