/**
 * The packed body of a feed record, as every store puts it together: events that differ only in their job are one
 * bundle. RS and US are the control characters of packed-text.ts.
 *
 *  body    bundle RS bundle RS ...
 *  bundle  event code US rev US route US state code US attempt US extra US id US id ...
 *  extra   nothing, "n" and a number, or "s" and a packed text
 *  state   empty once the job was removed
 */
import { eventOfCode } from "../model/event-kind.ts";
import { stateCodes, stateOfCode } from "../model/job-state.ts";
import { hintEvent } from "./hints.ts";
import type { CodedEvent, Hints } from "./hints.ts";
import { escapeMark, fieldEnd, itemEnd, packText, packTexts, unpackText } from "./packed-text.ts";
import type { FeedEvent } from "./records.ts";

/** Events that differ only in their job. */
export interface EventBundle extends CodedEvent {
  readonly rev: number;
  readonly attempt: number;
}

export function packEvents(bundles: readonly EventBundle[]): string {
  return bundles.map(packBundle).join(itemEnd);
}

function packBundle({ kind, rev, route, state, attempt, extra, ids }: EventBundle): string {
  return [kind, rev, route, state ?? "", attempt, packExtra(extra), ...packTexts(ids)].join(fieldEnd);
}

function packExtra(extra: string | number | null): string {
  if (extra === null) return "";
  return typeof extra === "number" ? `n${extra}` : `s${packText(extra)}`;
}

/** Whether jobs may have left `running` by this event, so that what they held is free. */
export function mayFree({ state, attempt }: Pick<EventBundle, "state" | "attempt">): boolean {
  return attempt > 0 && state !== stateCodes.running;
}

/** The routes of packed events by which jobs may have left `running`. */
export function routesLeft(packed: string): number[] {
  return bundlesOf(packed, Number)
    .filter(mayFree)
    .map(({ route }) => route);
}

/** How a store writes the number of a route. */
type ReadRoute = (text: string) => number;

function bundlesOf(packed: string, readRoute: ReadRoute): EventBundle[] {
  if (packed === "") return [];
  const isEscaped = packed.includes(escapeMark);
  return packed.split(itemEnd).map((bundle) => {
    const [kind, rev, route = "", state, attempt, extra = "", ...ids] = bundle.split(fieldEnd);
    return {
      kind: Number(kind),
      rev: Number(rev),
      route: readRoute(route),
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

export function readEvents(packed: string, readRoute: ReadRoute = Number): FeedEvent[] {
  return bundlesOf(packed, readRoute).flatMap(({ kind, rev, route, state, attempt, extra, ids }) => {
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

/** Adds the hints that follow from packed events. `now` is the time of the call that told them. */
export function hintEvents(hints: Hints, packed: string, now: number, readRoute: ReadRoute = Number): void {
  for (const bundle of bundlesOf(packed, readRoute)) hintEvent(hints, bundle, now);
}
