/**
 * Due documents: work that is due by the store's clock and kept as a document until it is done. Schedules fire and
 * backfills take their steps (engine/schedules/); deferred work and requested changes of flows are done
 * (engine/flows/), what follows from the counts of budgets (engine/budgets/), and signals of transactions and for many
 * runs are delivered (engine/durable/). Every step is guarded by its document's version, so a second process does no
 * harm; the alarm keeps the others from trying at once. Documents that are not due are never read. A document that
 * fails is quarantined alone.
 */
import type { Doc } from "../../store/records.ts";
import { deferredKind } from "../../store/rules/flow/arrive.ts";
import type { Needs } from "../services.ts";
import { actOnWork } from "../budgets/act-on-counts.ts";
import { workKind } from "../budgets/budget-docs.ts";
import { carryOutAll } from "../flows/requested-changes.ts";
import { broadcastKind, carryOutBroadcasts, deliverSignals, signalKind } from "../durable/kept-signals.ts";
import {
  carryOutKeyedSignals,
  keyedSignalKind,
  keyedWaitKind,
  lookAtWaits,
} from "../durable/keyed-signals.ts";
import { doDeferredWork } from "../flows/deferred-work.ts";
import { cancelKind, replayKind } from "../../model/flow/requested-change.ts";
import { stepBackfills } from "../schedules/backfills.ts";
import { fireSchedules } from "../schedules/fire-schedules.ts";
import type { Look } from "../schedules/fire-schedules.ts";
import { backfillKind, scheduleKind } from "../schedules/schedule-docs.ts";
import type { Duty, DutyPass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { Quarantine } from "./quarantine.ts";

/** What became of each document; `dueAt` if it stays and is due again. */
type DueDocumentsNeeds = Needs<
  "store" | "log" | "ids" | "changes" | "reads" | "policies" | "submitter" | "strideMs" | "coder" | "limits"
>;

type Ends = readonly PromiseSettledResult<Partial<Pick<Look, "dueAt">> & { readonly outcome: string }>[];

/** The steps for due documents, by kind. An unknown kind belongs to a newer version and is left alone. */
const steps: readonly (readonly [
  kind: string,
  step: (needs: DueDocumentsNeeds, docs: readonly Doc[], now: number) => Promise<Ends>,
])[] = [
  [scheduleKind, fireSchedules],
  [backfillKind, stepBackfills],
  [workKind, actOnWork],
  [deferredKind, doDeferredWork],
  [cancelKind, carryOutAll],
  [replayKind, carryOutAll],
  [signalKind, deliverSignals],
  [broadcastKind, carryOutBroadcasts],
  [keyedSignalKind, carryOutKeyedSignals],
  [keyedWaitKind, lookAtWaits],
];

/** Kinds whose due times are named, so that their steps get the server's own time. */
const followCalendars: ReadonlySet<string> = new Set([scheduleKind, backfillKind]);

const itemOf = ({ kind, id }: Doc): string => `${kind} ${id}`;

export function dueDocumentsDuty(needs: DueDocumentsNeeds & Needs<"platform">, tuning: Tuning): Duty {
  const { placement } = needs.ids;
  const partitionOf = (item: string): number | null =>
    placement?.ofName(item.slice(item.indexOf(" ") + 1)) ?? null;
  const quarantine = new Quarantine(needs.platform, partitionOf);
  let cursor: string | null = null;
  return {
    name: "due-documents",
    wakes: "alarm",
    servesDocs: true,
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    async pass(): Promise<DutyPass> {
      const page = await needs.store.readDueDocs({ max: tuning.batchMax, cursor });
      const { serverNow = page.now } = page;
      cursor = page.cursor;
      const due = page.docs.filter((doc) => !quarantine.has(itemOf(doc)));
      const ended = await Promise.all(
        steps.map(async ([kind, step]) => {
          const docs = due.filter((doc) => doc.kind === kind);
          const now = followCalendars.has(kind) ? serverNow : page.now;
          const ends = docs.length === 0 ? [] : await step(needs, docs, now);
          return ends.map((end, at) => ({ item: itemOf(docs[at] as Doc), end, now }));
        }),
      );
      const outcomes: Record<string, number> = {};
      let nextInMs = page.nextInMs === null || page.nextInMs === 0 ? Infinity : page.nextInMs;
      const processedIn: Record<number, number> = {};
      let processed = 0;
      let errors = 0;
      for (const { item, end, now } of ended.flat()) {
        if (end.status === "rejected") {
          errors += 1;
          quarantine.failed(item, end.reason);
          needs.log.error("duty due-documents: a document could not be served", {
            item,
            error: end.reason as unknown,
          });
          continue;
        }
        const { outcome, dueAt } = end.value;
        quarantine.succeeded(item);
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        if (outcome !== "raced") {
          processed += 1;
          const partition = partitionOf(item);
          if (partition !== null) processedIn[partition] = (processedIn[partition] ?? 0) + 1;
        }
        nextInMs = Math.min(nextInMs, (dueAt ?? Infinity) - now);
      }
      return {
        processed,
        ...(placement === null ? {} : { processedIn }),
        ...passedOver(needs, errors),
        outcomes,
        hasMore: page.cursor !== null,
        nextInMs: nextInMs === Infinity ? null : Math.max(0, nextInMs),
      };
    },
  };
}
