/** Pages of journals (read-journal.lua.ts). A call that reads much is several calls. */
import type { JournalAnswer, JournalRead } from "../../../store/operations.ts";
import type { Entry } from "../../../store/records.ts";
import type { Operation } from "../connection/call.ts";
import { fieldEnd, handleOf, packText, unpackText } from "../packing/value-text.ts";
import { repair } from "../upkeep/unreadable.ts";

type Page = readonly [last: number, durable: string, ...entries: string[]];
type Answer = [now: string, met: string[], answers: (Page | "gone" | "stale")[]];

export const readJournal: Operation<"readJournal"> = async (calls, reads) => {
  const answers: JournalAnswer[] = [];
  while (answers.length < reads.length) {
    const args = reads.slice(answers.length).flatMap(argsOf);
    const [now, met, pages] = (await calls.connection.read("mr1_read_journal", args)) as Answer;
    await repair(calls, met);
    for (const page of pages) {
      const { after } = reads[answers.length] as JournalRead;
      answers.push(typeof page === "string" ? { kind: page } : answerOf(page, after, Number(now)));
    }
  }
  return answers;
};

function argsOf({ id, after, max, lease }: JournalRead): string[] {
  const [handle, fence] = lease === undefined ? ["", ""] : [handleOf(lease.seq), String(lease.fence)];
  return [packText(id), String(after), String(max), handle, fence];
}

function answerOf([last, durable, ...texts]: Page, after: number, now: number): JournalAnswer {
  const entries = texts.map((text, at) => entryOf(text, after + 1 + at));
  return { kind: "ok", entries, last, slips: [], durable: Number(durable), now };
}

function entryOf(text: string, number: number): Entry {
  const atEnd = text.indexOf(fieldEnd);
  const keyEnd = text.indexOf(fieldEnd, atEnd + 1);
  const at = Number(text.slice(0, atEnd));
  return {
    number,
    at,
    key: unpackText(text.slice(atEnd + 1, keyEnd)),
    body: unpackText(text.slice(keyEnd + 1)),
  };
}
