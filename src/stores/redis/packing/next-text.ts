/** What becomes of a job, and under which guard, as the library reads it (argument-text.ts names the fields). */
import type { ChangeNext, Due, Edit, SettleNext } from "../../../model/job/change.ts";
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import type { Append, Guard } from "../../../store/operations.ts";
import type { EntryPut } from "../../../store/records.ts";
import { argumentText, unchanged } from "./argument-text.ts";
import { packNullable, packText, packValue } from "./value-text.ts";

export function dueText(due: Due): string {
  if ("at" in due) return `${due.isNamed === true ? "@" : "="}${due.at}`;
  return `+${due.inMs}`;
}

export function nextText(next: ChangeNext | SettleNext): string {
  const event = eventCodes[next.event];
  switch (next.to) {
    case "scheduled": {
      const { rankBase, rankSlope, countsAttempt, ttlMs, attempt } = next;
      const { clearsPassedDeadline = false, keepsLane = false, newRound = false } = next;
      const placed = { event, due: dueText(next.due), rankBase, rankSlope, countsAttempt, ttlMs, attempt };
      const asked = { ...placed, clearsPassedDeadline, keepsLane, newRound };
      return argumentText("schedule", { ...asked, ...editedTexts(next.edit) });
    }
    case "ready":
      return argumentText("handBack", { event, countsAttempt: next.countsAttempt });
    case "same": {
      const { cancelAsked, rankBase, rankSlope, passesOn } = next;
      const updated = { event, cancelAsked, rankBase, rankSlope, passesOn };
      return argumentText("update", { ...updated, ...editedTexts(next.edit) });
    }
    case "suspended": {
      const { wake, countsAttempt, attempt, keepsLane = false } = next;
      const wakeText = wake === null ? "" : dueText(wake);
      return argumentText("suspend", { event, wake: wakeText, countsAttempt, attempt, keepsLane });
    }
    case "blocked": {
      const { attempt, waits, parents } = next;
      const counts = { need: waits?.need, slack: waits?.slack };
      return argumentText("block", { event, attempt, ...counts, parents: packValue(parents) });
    }
    case "deleted":
      return argumentText("delete", { event });
    default: {
      const { keepMs, keepResultMs, keepsLane = false } = next;
      const [reason, result] = [packNullable(next.reason), packNullable(next.result)];
      const to = stateCodes[next.to];
      return argumentText("finish", { event, to, keepMs, keepResultMs, keepsLane, reason, result });
    }
  }
}

function editedTexts({ input, policy, meta, tags }: Edit = {}) {
  const textOf = (text: string | null | undefined): string =>
    text === undefined ? unchanged : packNullable(text);
  const list = tags === undefined ? unchanged : packValue(tags);
  return { input: textOf(input), policy: textOf(policy), meta: textOf(meta), tags: list };
}

export function guardText({ states, rev, fence, rang, marks }: Guard): string {
  const codes = states.map((state) => stateCodes[state]).join("");
  return argumentText("guard", { states: codes, rev, fence, rang, mask: marks?.mask, marks: marks?.is });
}

export function entryText(put: EntryPut): string {
  return argumentText("entry", entryValues(put));
}

/** "" for a change without an entry. */
export function appendText(append: Append | undefined): string {
  if (append === undefined) return "";
  const { entry, unreadMax } = append;
  const bounds = { countMax: unreadMax?.count, sizeMax: unreadMax?.size };
  return argumentText("append", { ...bounds, ...entryValues(entry) });
}

function entryValues({ key, body, marks = 0, unread = 0, reads = [] }: EntryPut) {
  return {
    ...{ marks: marks === 0 ? "" : marks, unread: unread === 0 ? "" : unread, reads: reads.join(",") },
    ...{ key: packText(key), body: packText(body) },
  };
}
