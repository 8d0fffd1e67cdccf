/**
 * Hints as the library sends them (commit.lua.ts): to the caller in its answer, to other processes as a published
 * message.
 */
import { emptyHints, hintDue } from "../../../store/watch/hints.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import { escapeMark, fieldEnd, itemEnd, unpackText } from "../../../store/packing/packed-text.ts";
import { readRoute, routeText } from "../packing/route-text.ts";
import { rowsOf } from "../packing/value-text.ts";

type Answer = [
  ...[routes: string, due: string, finished: string, cancels: string],
  ...[hasEvents?: number, signals?: string, outputs?: string, kept?: number],
];

/** In front of the earliest clock: documents are due already. */
const dueDocs = "0,";

/**
 * An answer: ready routes, earliest clock, finished ids, cancels, 1 where the feed has grown, journals that have grown,
 * and jobs that have written output.
 */
export function readHints(answer: unknown): Hints {
  const [routes, due, finished, cancels, hasEvents, signals, outputs, kept = 0] = answer as Answer;
  const hints = emptyHints();
  hints.hasEmitted = hasEvents === 1;
  hints.unreadable = kept;
  if (routes !== "") for (const route of routes.split(",")) hints.routes.add(readRoute(route));
  const hasDueDocs = due.startsWith(dueDocs);
  const clock = hasDueDocs ? due.slice(dueDocs.length) : due;
  hints.hasDueDocs = hasDueDocs;
  if (clock !== "") hintDue(hints, Number(clock));
  if (finished !== "") hints.finished = readTexts(finished);
  hints.cancels = leasesIn(cancels);
  hints.signals = leasesIn(signals ?? "");
  if (outputs !== undefined && outputs !== "") hints.outputs = readTexts(outputs);
  return hints;
}

/** Ids of running jobs, each with its owner. */
function leasesIn(list: string): Hints["cancels"] {
  if (list === "") return [];
  return rowsOf<[string, string]>(readTexts(list), 2).map(([id, owner]) => ({ id, owner }));
}

function readTexts(list: string): string[] {
  const texts = list.split(fieldEnd);
  return list.includes(escapeMark) ? texts.map(unpackText) : texts;
}

/** The message of a process that has claimed all that was ready on these routes. */
export function writeTaken(sender: string, routes: readonly number[]): string {
  return [`${sender}${fieldEnd}${fieldEnd}`, "", "", routes.map(routeText).join(",")].join(itemEnd);
}

/** A published message: its sender, then the hint. An empty one only proves the right (enter.lua.ts). */
export function readMessage(message: string): Hints {
  const [head = "", finished = "", cancels = "", taken = "", signals = "", outputs = ""] =
    message.split(itemEnd);
  const [, routes = "", due = "", promoted = ""] = head.split(fieldEnd);
  return {
    ...readHints([routes, due, finished, cancels, 0, signals, outputs]),
    hasPromoted: promoted !== "",
    hasEmitted: message !== "" && taken === "",
    taken: new Set(taken === "" ? [] : taken.split(",").map(readRoute)),
  };
}
