/**
 * No handler: a name that nobody handles is not an error at once, because a new version may be on its way. A ready job whose queue is served, but by no
 * worker that has a handler for its name, ends in failed once it has waited longer than the grace. A queue that nobody serves at all only
 * waits: its workers may be down.
 */
import { afterNoHandler } from "../../model/after-run.ts";
import type { Change } from "../../store/operations.ts";
import type { Engine } from "../engine.ts";
import { readNotices } from "../worker-notice.ts";
import type { Duty } from "./duty.ts";
import { idleRun } from "./duty.ts";
import type { Tuning } from "./duty-tuning.ts";

const scanMax = 10_000;

export function noHandlerDuty(engine: Engine, tuning: Tuning): Duty {
  const { noHandlerGraceMs } = engine.settings;
  return {
    name: "no-handler",
    wakes: "sleep",
    sleepMaxMs: tuning.sleepMaxMs,
    async run() {
      if (noHandlerGraceMs === null) return idleRun;
      const orphans = await orphanRoutes(engine);
      let processed = 0;
      let hasMore = false;
      for (const { queue, name } of orphans) {
        const { now } = await engine.store.describe();
        const before = now - noHandlerGraceMs;
        const filter = { states: ["ready"], queue, name, createdBefore: before } as const;
        const page = await engine.store.findJobs({ filter, max: tuning.batchMax, scanMax, cursor: null });
        const late = page.jobs.filter((job) => job.dueAt <= before);
        const changes = late.map((job): Change => {
          const next = afterNoHandler(engine.readPolicy(job.policy));
          return { id: job.id, cases: [{ guard: { states: ["ready"], rev: job.rev }, next }] };
        });
        const answers = await Promise.all(changes.map((change) => engine.changes.add(change)));
        const failed = answers.filter(({ kind }) => kind === "ok").length;
        if (failed > 0)
          engine.log.error("jobs failed: no worker of their queue has a handler", { queue, name, failed });
        processed += failed;
        hasMore ||= failed > 0 && page.cursor !== null;
      }
      return { processed, errors: 0, outcomes: { failed: processed }, hasMore };
    },
  };
}

/** Routes with ready jobs whose queue has live workers, none of them with a handler for the name. */
async function orphanRoutes(
  engine: Engine,
): Promise<readonly { readonly queue: string; readonly name: string }[]> {
  const tallies = await engine.store.tallyJobs();
  const waiting = tallies.filter(({ state, count }) => state === "ready" && count > 0);
  if (waiting.length === 0) return [];
  const notices = await readNotices(engine);
  return waiting.filter(({ queue, name }) => {
    const serving = notices.filter(({ queues }) => queues.includes(queue));
    return serving.length > 0 && !serving.some(({ names }) => names.includes(name));
  });
}
