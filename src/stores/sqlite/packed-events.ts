/**
 * How a feed record is packed: events that differ only in their job are one run, so a claim of 500 jobs is one list of ids.
 *
 *  body   [run, run, ...]          run   [event code, route, state code or null, rev, attempt, extra, id, id, ...]
 *
 * Against one list per event this takes half the bytes in the log, and a third of the time to write.
 */
import { eventCodes, eventOfCode } from "../../model/event-kind.ts";
import type { EventKind } from "../../model/event-kind.ts";
import { stateOfCode } from "../../model/job-state.ts";
import type { FeedEvent } from "../../store/records.ts";

export type Extra = string | number | null;
export type Run = [
  kind: number,
  route: number,
  state: number | null,
  rev: number,
  attempt: number,
  extra: Extra,
  ...ids: string[],
];

export interface Told {
  readonly kind: EventKind;
  readonly id: string;
  readonly rev: number;
  readonly route: number;
  /** State code after the change; null once removed. */
  readonly state: number | null;
  readonly attempt: number;
  readonly extra: Extra;
}

export function packEvent(runs: Run[], { kind, id, rev, route, state, attempt, extra }: Told): void {
  const code = eventCodes[kind];
  const last = runs.at(-1);
  const isSame =
    last !== undefined &&
    last[0] === code &&
    last[1] === route &&
    last[2] === state &&
    last[3] === rev &&
    last[4] === attempt &&
    last[5] === extra;
  if (isSame) last.push(id);
  else runs.push([code, route, state, rev, attempt, extra, id]);
}

export function unpackEvents(body: string): FeedEvent[] {
  return (JSON.parse(body) as Run[]).flatMap(([kind, route, state, rev, attempt, extra, ...ids]) =>
    ids.map((id) => ({
      kind: eventOfCode(kind),
      id,
      rev,
      route,
      state: state === null ? null : stateOfCode(state),
      attempt,
      extra,
    })),
  );
}
