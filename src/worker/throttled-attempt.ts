/**
 * The end of an attempt whose handler threw or returned `Throttled`: first the limit is closed for all processes, then
 * the job goes back, so that nobody claims it again before the cooldown. A limit that the store does not know is a
 * mistake in the handler, hence a failed attempt. Where the store cannot be told, the job alone waits.
 */
import type { Engine } from "../engine/engine.ts";
import { modelSources } from "../engine/model-sources.ts";
import { afterThrottled } from "../model/after-run.ts";
import { describeError } from "../model/attempt-log.ts";
import { isMillraceError } from "../model/error.ts";
import type { Attempt } from "./attempt.ts";
import { delayOf, endByThrow, endedOf, storeTimeOf } from "./attempt-end.ts";
import type { AttemptEnd } from "./attempt-end.ts";
import { controlOf } from "./control.ts";
import type { Control } from "./control.ts";

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
  { limit, due }: Control & { readonly kind: "throttled" },
  outcome: unknown,
): Promise<AttemptEnd> {
  const now = storeTimeOf(attempt, engine.platform.monotonicUs());
  const saidMs = due === null ? null : delayOf(due, now);
  const name = typeof limit === "string" ? limit : limit.name;
  const decide = (cooldownMs: number, isClosed: boolean): AttemptEnd =>
    afterThrottled(
      endedOf(attempt),
      { limit: name, cooldownMs, isClosed, error: describeError(outcome) },
      modelSources(engine, now, attempt.owner),
    );
  try {
    if (typeof limit !== "string") await engine.limits.define([limit.use()]);
    const cooldownMs = await engine.limits.throttle(name, saidMs);
    engine.log.info("a limit was throttled and cools down", { limit: name, cooldownMs, id: attempt.job.id });
    return decide(cooldownMs, true);
  } catch (error) {
    if (isMillraceError(error, "unknown-limit") || isMillraceError(error, "limit-conflict"))
      return endByThrow(engine, attempt, error);
    const message = "a throttled limit could not be closed; its job alone waits";
    engine.repeated.say("warn", message, { limit: name, error });
    return decide(saidMs ?? unclosedMs, false);
  }
}
