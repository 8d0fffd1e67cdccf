/**
 * The end of an attempt whose handler threw or returned `Throttled`: first the limit, or the key of it that is meant,
 * is closed for all processes, then the job goes back, so that nobody claims it again before the cooldown. A limit that
 * the store does not know is a mistake in the handler, hence a failed attempt. Where the store cannot be told, the job
 * alone waits.
 */
import type { Engine } from "../../engine/engine.ts";
import { modelSources } from "../../engine/policies/model-sources.ts";
import { afterThrottled } from "../../model/job/after-run.ts";
import type { ThrottledEnd } from "../../model/job/after-run.ts";
import { describeError } from "../../model/job/attempt-log.ts";
import { isMillraceError } from "../../model/error.ts";
import { limitGateKey } from "../../model/limits/gate.ts";
import { gateOfLimit, keyOfGate } from "../../model/routing/lane.ts";
import { keyUsesOf } from "../../store/rules/gates/lane.ts";
import type { Attempt } from "../run/attempt.ts";
import { delayOf, endByThrow, endedOf } from "./attempt-end.ts";
import type { AttemptEnd } from "./attempt-end.ts";
import { controlOf } from "../control.ts";
import type { Control } from "../control.ts";

/** What is wrong in the handler or in a definition, and not with the store. */
const mistakes = ["unknown-limit", "limit-conflict", "invalid-option"] as const;

/** How long a job waits whose limit could not be closed, and whose upstream named no time. */
const unclosedMs = 1000;

/** Null where the outcome is no throttle, or the attempt was told to stop: then that comes first. */
export function endThrottled(engine: Engine, attempt: Attempt, outcome: unknown): Promise<AttemptEnd> | null {
  const control = controlOf(outcome);
  if (control?.kind !== "throttled" || attempt.abortReason !== null || attempt.cancelAsked) return null;
  return closeAndGiveBack(engine, attempt, control, outcome);
}

async function closeAndGiveBack(
  engine: Engine,
  attempt: Attempt,
  { limit, key: named, due }: Control & { readonly kind: "throttled" },
  outcome: unknown,
): Promise<AttemptEnd> {
  const now = attempt.storeTimeAt(engine.platform.monotonicUs());
  const saidMs = due === null ? null : delayOf(due, now);
  const name = typeof limit === "string" ? limit : limit.name;
  const decide = (cooldownMs: number, ended: Pick<ThrottledEnd, "isClosed" | "isOwnKey">): AttemptEnd =>
    afterThrottled(
      endedOf(attempt),
      { limit: name, cooldownMs, ...ended, error: describeError(outcome) },
      modelSources(engine, now, attempt.owner),
    );
  try {
    if (typeof limit !== "string") await engine.limits.define([{ limit }]);
    const own = named === null ? null : await ownKeyOf(engine, attempt, name);
    const key = named === undefined ? own : named;
    const cooldownMs = await engine.limits.throttle(name, key, saidMs);
    const scope = key === null ? {} : { key };
    const { id } = attempt.job;
    engine.log.info("a limit was throttled and cools down", { limit: name, ...scope, cooldownMs, id });
    return decide(cooldownMs, { isClosed: true, ...(key === null ? {} : { isOwnKey: key === own }) });
  } catch (error) {
    if (mistakes.some((code) => isMillraceError(error, code))) return endByThrow(engine, attempt, error);
    const message = "a throttled limit could not be closed; its job alone waits";
    engine.repeated.say("warn", message, { limit: name, error });
    return decide(saidMs ?? unclosedMs, { isClosed: false });
  }
}

/** The key of this limit that the job takes from. Its claim has told the keys, unless the reply was lost. */
async function ownKeyOf(engine: Engine, { job }: Attempt, limit: string): Promise<string | null> {
  const keys =
    job.keyGates ?? keyUsesOf((await engine.reads.add(job.id)) ?? { laneGates: null }).map(({ key }) => key);
  const own = keys.find((key) => gateOfLimit(key) === limitGateKey(limit));
  return own === undefined ? null : keyOfGate(own);
}
