/**
 * Webhooks: reads the feed for each webhook and makes the deliveries (engine/webhooks/). Only the leader does it; every
 * write is guarded, so a second process does no harm. Without webhooks a pass is one small read. Hints say that the
 * feed may have grown; a slow poll finds what no hint announced. A webhook that fails is quarantined alone.
 */
import type { Unwatch } from "../../store/store.ts";
import type { Needs } from "../services.ts";
import { EventJobs } from "../events/event-jobs.ts";
import { RouteNames } from "../events/route-names.ts";
import { HookReader } from "../webhooks/hook-reader.ts";
import { webhooksId } from "../../model/events/webhook.ts";
import { webhookKind } from "../webhooks/webhook-docs.ts";
import type { FoundWebhooks } from "../webhooks/webhook-docs.ts";
import { idlePass } from "./duty.ts";
import type { Duty, DutyPass } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";
import { passedOver } from "./passed-over.ts";
import { Quarantine } from "./quarantine.ts";

const pauseMs = 100;
/** The poll that finds what lost hints announced. */
const slowLookMs = 2000;
/** Deliveries are made under a check of the webhooks' version, so a slightly old copy does no harm. */
const hooksKnownMs = 1000;

/** @param deliver called with whether this process delivers: it leads and there are webhooks. */
export function webhooksDuty(
  needs: Needs<
    | "store"
    | "platform"
    | "coder"
    | "log"
    | "ids"
    | "planner"
    | "submitter"
    | "webhookDocs"
    | "leadership"
    | "policies"
  >,
  tuning: Tuning,
  deliver: (isOurs: boolean) => void,
): Duty {
  const { platform, store } = needs;
  const quarantine = new Quarantine(platform);
  const shared = { names: new RouteNames(store), jobs: new EventJobs(needs) };
  const readers = new Map<string, HookReader>();
  let unwatch: Unwatch | null = null;
  let isStale = true;
  let lookedUs = Number.NEGATIVE_INFINITY;
  let found: FoundWebhooks | null = null;
  let foundUs = 0;

  const sinceMs = (us: number): number => (platform.monotonicUs() - us) / 1000;

  const rest = (): DutyPass => {
    unwatch?.();
    unwatch = null;
    readers.clear();
    found = null;
    deliver(false);
    return idlePass;
  };

  /** The reader of each webhook that is not paused, with its present settings. */
  const current = ({ hooks }: FoundWebhooks): readonly HookReader[] => {
    const active = hooks.filter(({ isPaused }) => !isPaused);
    for (const name of readers.keys()) if (!active.some((hook) => hook.name === name)) readers.delete(name);
    return active.map((hook) => {
      const known = readers.get(hook.name);
      if (known !== undefined && JSON.stringify(known.hook) === JSON.stringify(hook)) return known;
      const reader = new HookReader(needs, shared, hook);
      readers.set(hook.name, reader);
      return reader;
    });
  };

  const passOnce = async (isAsked: boolean): Promise<DutyPass> => {
    if (!isAsked && !needs.leadership.isLeader) return rest();
    const isQuiet = found !== null && !isStale && sinceMs(lookedUs) < slowLookMs;
    if (isQuiet && !isAsked) return { ...idlePass, hasMore: true, pauseMs };
    if (found === null || isAsked || sinceMs(foundUs) > hooksKnownMs) {
      found = await needs.webhookDocs.find();
      foundUs = platform.monotonicUs();
    }
    if (found.hooks.length === 0) return rest();
    // If an operator asks for a pass, it makes deliveries, but the process of the command does not deliver them.
    if (!isAsked) deliver(true);
    if (!isAsked) unwatch ??= store.watch(() => (isStale = true));
    isStale = false;
    lookedUs = platform.monotonicUs();
    const { version } = found;
    // The check refuses the deliveries of a leader that was stopped for longer than its lease.
    const held = needs.leadership.check();
    const checks = [{ kind: webhookKind, id: webhooksId, version }, ...(held === null ? [] : [held])];
    let [made, errors, hasMore, isRaced] = [0, 0, false, false];
    for (const reader of current(found)) {
      const item = reader.hook.name;
      if (quarantine.has(item)) continue;
      try {
        const step = await reader.step(checks, tuning.batchMax);
        quarantine.succeeded(item);
        made += step.made;
        hasMore ||= step.hasMore;
        isRaced ||= step.isRaced;
      } catch (error) {
        errors += 1;
        quarantine.failed(item, error);
        needs.log.error("duty webhooks: the feed could not be read for one", { webhook: item, error });
      }
    }
    if (hasMore || isRaced) isStale = true;
    if (isRaced) found = null;
    const outcomes: Record<string, number> = made === 0 ? {} : { made };
    const emitted = { processed: made, ...passedOver(needs, errors), outcomes };
    if (isAsked) return { ...emitted, hasMore };
    return { ...emitted, hasMore: true, ...(hasMore ? {} : { pauseMs }) };
  };

  /** While the partition of the webhooks is away, there is nothing to do here. */
  const unlessMissing = (error: unknown): DutyPass => {
    if ((store.missing?.().length ?? 0) === 0) throw error;
    return { ...rest(), ...passedOver(needs, 0) };
  };

  // One pass at a time: an operator's pass would otherwise use the same readers as the loop.
  let last: Promise<unknown> = Promise.resolve();
  return {
    name: "webhooks",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    quarantine,
    pass(isAsked = false): Promise<DutyPass> {
      const pass = last.then(() => passOnce(isAsked)).catch(unlessMissing);
      last = pass.catch(() => undefined);
      return pass;
    },
  };
}
