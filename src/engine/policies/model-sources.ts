/** What the model's decisions need from the engine around them. */
import type { Sources } from "../../model/job/after-run.ts";
import type { Engine } from "../engine.ts";

export function modelSources(engine: Engine, now: number, worker: string): Sources {
  const { strideMs, backoffs } = engine;
  return {
    now,
    worker,
    strideMs,
    custom: backoffs,
    random: () => engine.platform.random(),
    warn: (problem) => engine.repeated.say("error", problem),
  };
}
