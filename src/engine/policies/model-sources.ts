/** What the model's decisions need from their process. */
import type { Sources } from "../../model/job/after-run.ts";
import type { Needs } from "../services.ts";

export function modelSources(
  needs: Needs<"platform" | "strideMs" | "backoffs" | "repeated">,
  now: number,
  worker: string,
): Sources {
  const { strideMs, backoffs } = needs;
  return {
    now,
    worker,
    strideMs,
    custom: backoffs,
    random: () => needs.platform.random(),
    warn: (problem) => needs.repeated.say("error", problem),
  };
}
