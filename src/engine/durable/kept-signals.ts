/**
 * Signals that are kept as due documents until they are delivered: those that were sent in the caller's transaction, or
 * in the step that starts their run, and those for many runs. The sender delivers at once what it may; the duty of due
 * documents delivers what a sender that died has left. A delivery may be repeated, because the journal accepts the key
 * of a signal once.
 */
import { digestText } from "../../codec/digest.ts";
import { writeEntry } from "../../model/durable/entry-text.ts";
import { journalLimits } from "../../model/durable/journal-entry.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";
import { liveStates } from "../../model/job/job-state.ts";
import { textIn } from "../../model/routing/placement.ts";
import type { Append, ChangeAnswer } from "../../store/operations.ts";
import type { Doc, DocPut } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { appendChange } from "./append-change.ts";

export const signalKind = "signal";
export const broadcastKind = "broadcast";

/** A signal without its run. */
export interface Sent {
  readonly name: string;
  /** Encoded. */
  readonly value: string | null;
  readonly key: string;
  readonly source?: string;
  /** Left out for a signal that is sent to a run. */
  readonly businessKey?: string;
}

interface KeptSignal extends Sent {
  readonly run: string;
}

/** Runs of one tag: those that live when the broadcast begins. */
export interface Broadcast extends Sent {
  readonly tag: string;
  readonly cursor: string | null;
  /** How many runs have it so far. */
  readonly count: number;
}

type KeptSignalsNeeds = Needs<"store" | "changes" | "policies" | "log">;

const unreadMax = { count: journalLimits.unreadSignalsMax, size: journalLimits.unreadBytesMax };
/** A run that takes no more now is asked again after this time. */
const fullMs = 10_000;
const pageMax = 500;

export function appendOf({ name, value, key, source, businessKey }: Sent): Append {
  const body: EntryBody = {
    ...{ kind: "signal", name, value },
    ...(source === undefined ? {} : { source }),
    ...(businessKey === undefined ? {} : { businessKey }),
  };
  // One event may be sent to several business keys of a run.
  const own = businessKey === undefined ? "signal" : `keyed:${digestText(`${name}\n${businessKey}`)}`;
  return { entry: writeEntry({ key: `${own}:${key}`, body }), unreadMax };
}

export function sendTo(needs: Needs<"changes">, run: string, sent: Sent): Promise<ChangeAnswer> {
  return needs.changes.add(appendChange(run, appendOf(sent)));
}

/** The document of a signal, in the partition of its run. Its id is minted, so only a repeat of the put finds it. */
export function keptSignal({ ids }: Needs<"ids">, run: string, sent: Sent): DocPut {
  const body: KeptSignal = { run, ...sent };
  return {
    ...{ kind: signalKind, id: nameBeside({ ids }, run), body: JSON.stringify(body) },
    ...{ due: { inMs: 0 }, guard: "any" },
  };
}

function nameBeside({ ids }: Needs<"ids">, run: string): string {
  const { placement } = ids;
  return placement === null ? ids.mint() : `{${textIn(placement, placement.ofId(run))}}${ids.mint()}`;
}

type Ends = Promise<readonly PromiseSettledResult<{ readonly outcome: string }>[]>;

export function deliverSignals(needs: KeptSignalsNeeds, docs: readonly Doc[]): Ends {
  return Promise.allSettled(docs.map((doc) => deliver(needs, doc)));
}

async function deliver(needs: KeptSignalsNeeds, doc: Doc): Promise<{ readonly outcome: string }> {
  const { run, ...sent } = JSON.parse(doc.body) as KeptSignal;
  const answer = await sendTo(needs, run, sent);
  const isFull = answer.kind === "full";
  if (answer.kind === "gone" || answer.kind === "changed")
    needs.log.warn("a signal came too late: its run has ended", { id: run, signal: sent.name });
  const { kind, id, version } = doc;
  const left = isFull ? { body: doc.body, due: { inMs: fullMs } } : { body: null };
  await needs.store.putDocs([{ kind, id, guard: { version }, ...left }]);
  return { outcome: isFull ? "waited" : "delivered" };
}

export function carryOutBroadcasts(needs: KeptSignalsNeeds, docs: readonly Doc[]): Ends {
  return Promise.allSettled(
    docs.map(async (doc) => {
      await carryOutBroadcast(needs, doc);
      return { outcome: "delivered" };
    }),
  );
}

/** Page by page, each kept with the document. @returns how many runs have the signal. */
export async function carryOutBroadcast(needs: KeptSignalsNeeds, doc: Doc): Promise<number> {
  const { kind, id } = doc;
  let { version } = doc;
  let left = JSON.parse(doc.body) as Broadcast;
  for (;;) {
    const filter = { tag: left.tag, states: liveStates };
    const page = await needs.store.findJobs({
      filter,
      max: pageMax,
      scanMax: pageMax * 20,
      cursor: left.cursor,
    });
    const runs = page.jobs.filter(
      ({ policy, queue }) => needs.policies.read(policy, queue).durable?.includes(left.name) === true,
    );
    const answers = await Promise.all(runs.map((run) => sendTo(needs, run.id, left)));
    const taken = answers.filter((answer) => answer.kind === "ok" || answer.kind === "repeated").length;
    left = { ...left, cursor: page.cursor, count: left.count + taken };
    const isOver = page.cursor === null;
    const rest = isOver ? { body: null } : { body: JSON.stringify(left), due: { inMs: 0 } };
    const [put] = await needs.store.putDocs([{ kind, id, guard: { version }, ...rest }]);
    // Another process carries it out too; what both do counts once.
    if (isOver || put?.kind !== "ok") return left.count;
    ({ version } = put);
  }
}
