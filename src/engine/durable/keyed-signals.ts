/**
 * Signals by business key, such as the number of a payment: the sender need not know which run waits for it. An address
 * is the name of the signal and the key. All documents of an address lie in one partition:
 *
 *  keyed-wait      one per open wait. It is put before the journal says that the wait is open, and deleted before the
 *                  journal says that it is over
 *  keyed-signal    a signal, with a cursor as long as it walks along the waits, a page at a time. If nobody has taken
 *                  it then, it stays for a while
 *  keyed-sent      the sender's key was used: a repeat within that while is a duplicate
 *
 * A wait is put before its run looks for signals, and a signal is put before it looks for waits. So one of the two
 * finds the other; if both do, the journal accepts the signal once. A process that dies in the middle leaves a due
 * document, which the duty of due documents carries on.
 */
import { digestText } from "../../codec/digest.ts";
import { roundOf } from "../../model/durable/durable-marks.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { Append, ChangeAnswer, SubmitUnit } from "../../store/operations.ts";
import type { Doc, DocPut } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { appendChange, resume } from "./append-change.ts";
import { appendOf } from "./kept-signals.ts";
import type { Sent } from "./kept-signals.ts";
import { readRun } from "./read-run.ts";

export const keyedSignalKind = "keyed-signal";
export const keyedWaitKind = "keyed-wait";
const sentKind = "keyed-sent";

/** What a signal is sent to, and a wait waits at. */
export interface Address {
  readonly name: string;
  readonly businessKey: string;
}

/** A wait of a run. */
export interface KeyedWait {
  readonly run: string;
  readonly round: number;
  readonly call: string;
}

interface KeyedSignal extends Sent {
  readonly businessKey: string;
  readonly keepMs: number;
  /** Null once it has met all waits. `tried`: the runs of this page, noted before the first of them gets it. */
  readonly walk: { readonly after: string | null; readonly tried: readonly string[] } | null;
  /** How many runs have it so far. */
  readonly runs: number;
  /** How many had no room for it. */
  readonly full: number;
  /** It was kept, and a run that waits now takes it. */
  readonly isTaken?: true;
}

/** `runs`: how many have the signal. `full`: how many had no room. */
export interface Delivered {
  readonly runs: number;
  readonly full: number;
}

type KeyedNeeds = Needs<"store" | "changes">;

const pageMax = 200;
/** The duty goes on with a signal whose sender has not ended it after this time. */
const leftMs = 5000;
/** When a wait is looked at whose run may have ended without a word, such as by a cancel. */
const lookMs = 7 * 24 * 60 * 60 * 1000;

/** The text in braces chooses the partition. */
function prefixOf({ name, businessKey }: Address): string {
  return `{${digestText(`${name}\n${businessKey}`)}}`;
}

/** The unit that sends a signal. It is refused as `doc-changed` if the sender's key was used. */
export function keyedSignalUnit(
  { ids }: Needs<"ids">,
  sent: Sent & Address,
  { keepMs, isRepeatable, inMs = leftMs }: { keepMs: number; isRepeatable: boolean; inMs?: number },
): SubmitUnit & { readonly docs: readonly [DocPut, ...DocPut[]] } {
  const prefix = prefixOf(sent);
  const body: KeyedSignal = { ...sent, keepMs, walk: { after: null, tried: [] }, runs: 0, full: 0 };
  // Minted ids are in the order of their time, and so are the signals that a wait finds.
  const name = { kind: keyedSignalKind, id: `${prefix}${ids.mint()}` };
  const signal: DocPut = { ...name, body: JSON.stringify(body), guard: "absent", due: { inMs } };
  const key = { kind: sentKind, id: `${prefix}${digestText(sent.key)}` };
  const used: DocPut = { ...key, body: "", guard: "absent", expiresInMs: keepMs };
  return { jobs: [], docs: isRepeatable ? [signal, used] : [signal] };
}

/** Gives a signal to every wait at its address. */
export async function carryOutKeyedSignal(needs: KeyedNeeds, id: string): Promise<Delivered> {
  for (;;) {
    const { docs } = await needs.store.readDocs({ kind: keyedSignalKind, ids: [id] });
    const [doc] = docs;
    // Another process has carried it out, and a run has it.
    if (doc === undefined) return { runs: 1, full: 0 };
    const signal = readSignal(doc);
    if (signal.walk === null) return signal;
    const ended = await walkOn(needs, doc, signal);
    if (ended !== null) return ended;
  }
}

/** @returns null if there is more to walk, or another process has written it. */
async function walkOn(needs: KeyedNeeds, doc: Doc, signal: KeyedSignal): Promise<Delivered | null> {
  const { kind, id } = doc;
  let { version } = doc;
  const { after, tried } = signal.walk ?? { after: null, tried: [] };
  const prefix = prefixOf(signal);
  const page = await needs.store.readDocs({ kind: keyedWaitKind, prefix, after, max: pageMax });
  const waiting = page.docs.map((wait) => readWait(wait).run);
  if (tried.length === 0 && waiting.length > 0) {
    const body = JSON.stringify({ ...signal, walk: { after, tried: waiting } });
    const [noted] = await needs.store.putDocs([
      { kind, id, guard: { version }, body, due: { inMs: leftMs } },
    ]);
    if (noted?.kind !== "ok") return null;
    ({ version } = noted);
  }
  const append = appendOf(signal);
  const answers = await Promise.all([
    ...page.docs.map((wait) => give(needs, wait, append)),
    // A process that died has given it to these, and their waits are over.
    ...tried.filter((run) => !waiting.includes(run)).map((run) => askWhetherGiven(needs, run, append)),
  ]);
  const runs = signal.runs + answers.filter(isTaken).length;
  const full = signal.full + answers.filter((answer) => answer.kind === "full").length;
  const walk = page.cursor === null ? null : { after: page.cursor, tried: [] };
  const rest = { ...signal, runs, full, walk };
  const put: DocPut =
    walk !== null
      ? { kind, id, guard: { version }, body: JSON.stringify(rest), due: { inMs: leftMs } }
      : runs > 0 || full > 0
        ? { kind, id, guard: { version }, body: null }
        : { kind, id, guard: { version }, body: JSON.stringify(rest), expiresInMs: signal.keepMs };
  const [answer] = await needs.store.putDocs([put]);
  return answer?.kind === "ok" && walk === null ? { runs, full } : null;
}

/** To one wait. A wait whose run has ended, or begun anew, is deleted. */
async function give(needs: KeyedNeeds, doc: Doc, append: Append): Promise<ChangeAnswer> {
  const { run, round } = readWait(doc);
  const answer = await needs.changes.add(appendChange(run, append, round));
  if (answer.kind === "gone" || answer.kind === "changed") await deleteWait(needs, doc);
  return answer;
}

/** Changes nothing. The answer is `repeated` if the journal has the signal. */
function askWhetherGiven(needs: KeyedNeeds, run: string, append: Append): Promise<ChangeAnswer> {
  return needs.changes.add({ id: run, cases: [{ guard: { states: [] }, next: resume, append }] });
}

function isTaken({ kind }: ChangeAnswer): boolean {
  return kind === "ok" || kind === "repeated";
}

/** Puts a wait, and then gives its run the signals that came before. */
export async function registerWait(needs: KeyedNeeds, address: Address, wait: KeyedWait): Promise<void> {
  const body = JSON.stringify(wait);
  await needs.store.putDocs([{ ...nameOf(address, wait), body, guard: "any", due: { inMs: lookMs } }]);
  const prefix = prefixOf(address);
  let after: string | null = null;
  do {
    const page = await needs.store.readDocs({ kind: keyedSignalKind, prefix, after, max: pageMax });
    for (const doc of page.docs) await takeFound(needs, doc, wait);
    after = page.cursor;
  } while (after !== null);
}

/** The wait is over. A stay that was superseded finds the same end in the journal, so it deletes no open wait. */
export async function endWait({ store }: Needs<"store">, address: Address, wait: KeyedWait): Promise<void> {
  await store.putDocs([{ ...nameOf(address, wait), body: null, guard: "any" }]);
}

function nameOf(address: Address, { run, round, call }: KeyedWait): Pick<Doc, "kind" | "id"> {
  return { kind: keyedWaitKind, id: `${prefixOf(address)}${digestText(`${run}\n${round}\n${call}`)}` };
}

/**
 * Notes the run in the signal first, so that two runs that begin to wait at once do not both take what was kept, and
 * that the signal is not lost if this process dies.
 */
async function takeFound(needs: KeyedNeeds, found: Doc, { run, round, call }: KeyedWait): Promise<void> {
  const { kind, id, version, body } = found;
  const signal = readSignal(found);
  if (signal.isTaken === true) return;
  const { after, tried } = signal.walk ?? { after: null, tried: [] };
  const isKept = signal.walk === null;
  const noted: KeyedSignal = {
    ...signal,
    walk: { after, tried: [...tried, run] },
    ...(isKept ? { isTaken: true } : {}),
  };
  const [put] = await needs.store.putDocs([
    { kind, id, guard: { version }, body: JSON.stringify(noted), due: { inMs: leftMs } },
  ]);
  if (put?.kind !== "ok") {
    // Its sender has gone on with it, or another run has taken it.
    const [changed] = (await needs.store.readDocs({ kind, ids: [id] })).docs;
    return changed === undefined ? undefined : takeFound(needs, changed, { run, round, call });
  }
  const answer = await needs.changes.add(appendChange(run, appendOf(signal), round));
  // Its sender, or the duty, goes on with it and finds which runs have it.
  if (!isKept) return;
  const rest = isTaken(answer) ? { body: null } : { body, expiresInMs: signal.keepMs };
  await needs.store.putDocs([{ kind, id, guard: { version: put.version }, ...rest }]);
}

/** Unless its run has put it anew. */
async function deleteWait({ store }: Needs<"store">, { kind, id, version }: Doc): Promise<void> {
  await store.putDocs([{ kind, id, body: null, guard: { version } }]);
}

type Ends = Promise<readonly PromiseSettledResult<{ readonly outcome: string }>[]>;

export function carryOutKeyedSignals(needs: KeyedNeeds, docs: readonly Doc[]): Ends {
  return Promise.allSettled(
    docs.map(async ({ id }) => {
      await carryOutKeyedSignal(needs, id);
      return { outcome: "delivered" };
    }),
  );
}

/** Deletes the waits whose runs have ended without a word. */
export function lookAtWaits(needs: Needs<"store" | "reads">, docs: readonly Doc[]): Ends {
  return Promise.allSettled(
    docs.map(async (doc) => {
      if (!(await isOpen(needs, readWait(doc)))) {
        await deleteWait(needs, doc);
        return { outcome: "ended" };
      }
      const { kind, id, version, body } = doc;
      await needs.store.putDocs([{ kind, id, body, guard: { version }, due: { inMs: lookMs } }]);
      return { outcome: "waits" };
    }),
  );
}

async function isOpen(needs: Needs<"store" | "reads">, { run, round, call }: KeyedWait): Promise<boolean> {
  const record = await needs.reads.add(run);
  if (record === null || isTerminal(record.state) || roundOf(record.durable) !== round) return false;
  const steps = (await readRun(needs, run))?.steps ?? [];
  return steps.find((step) => step.call === call)?.state === "waiting";
}

function readWait({ body }: Doc): KeyedWait {
  return JSON.parse(body) as KeyedWait;
}

function readSignal({ body }: Doc): KeyedSignal {
  return JSON.parse(body) as KeyedSignal;
}
