/** Reads the journals of durable runs, and commits slips inside the caller's transaction. */
import type { JournalAnswer, JournalRead, SlipAnswer } from "../../../store/operations.ts";
import type { LeaseRef, Slip } from "../../../store/records.ts";
import { callRead, onlyRow } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import type { Row } from "../connection/database.ts";
import { numberList, packText, readNumbers, readTexts, unpackText } from "../functions/packed-values.ts";

/** Of the bodies that one call answers. A page has at least one entry. */
const callBytesMax = 8 * 1024 * 1024;

export async function readJournal(
  calls: Calls,
  reads: readonly JournalRead[],
): Promise<readonly JournalAnswer[]> {
  if (reads.length === 0) return [];
  const rows = await callRead(calls, "read_journal_v1", [
    calls.now(),
    reads.map(({ id }) => packText(id)),
    numberList(reads.map(({ lease }) => lease?.seq ?? null)),
    numberList(reads.map(({ lease }) => lease?.fence ?? null)),
    numberList(reads.map(({ after }) => after)),
    numberList(reads.map(({ max }) => max)),
    Math.ceil(callBytesMax / reads.length),
  ]);
  return rows.map((row, at) => answerOf(row, reads[at] as JournalRead));
}

function answerOf(row: Row, { after }: JournalRead): JournalAnswer {
  const [now, kind, last, durable, ats, keys, bodies, slipKeys, slipBodies] = row;
  if (kind === "gone" || kind === "stale") return { kind };
  const keysOf = readTexts(keys ?? null);
  const bodiesOf = readTexts(bodies ?? null);
  const slipBodiesOf = readTexts(slipBodies ?? null);
  const slips = slipKeys === null ? [] : readTexts(slipKeys ?? null);
  return {
    kind: "ok",
    entries: readNumbers(ats ?? null).map((entryAt, index) => ({
      number: Math.max(0, after) + index + 1,
      at: entryAt,
      key: keysOf[index] as string,
      body: bodiesOf[index] as string,
    })),
    last: Number(last),
    slips: slips.map((key, index) => ({ key: key as string, body: slipBodiesOf[index] as string })),
    durable: Number(durable),
    now: Number(now),
  };
}

export async function commitSlip(calls: Calls, lease: LeaseRef, slip: Slip): Promise<SlipAnswer> {
  const { id, seq, fence } = lease;
  const values = [packText(id), seq, fence, packText(slip.key), packText(slip.body)];
  const [text] = onlyRow(await callRead(calls, "commit_slip_v1", values));
  const answer = JSON.parse(text as string) as SlipAnswer;
  return answer.kind === "recorded" ? { ...answer, body: unpackText(answer.body) } : answer;
}
