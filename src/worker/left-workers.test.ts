import { expect, test } from "vitest";
import { millOn } from "../../test/support/mill-on.ts";
import { runUntil } from "../../test/support/virtual-mill.ts";
import { job } from "../engine/definition.ts";
import { noticePut } from "../engine/worker-notice.ts";
import type { WorkerNotice } from "../engine/worker-notice.ts";
import { openSqliteStore } from "../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../testing/virtual-platform.ts";
import { handler } from "./handler.ts";

const shared = job<null>("shared", { queue: "shared" });

/** Of a process that was killed behind it. */
const lastNotice: WorkerNotice = {
  ...{ label: "ghost", host: "h", processId: 1, mode: "working", queues: ["shared"], names: ["shared"] },
  ...{ capabilities: [], slots: {}, totals: { shared: 6 }, weights: {}, slotsMax: 64, running: 0, jobs: [] },
  ...{ abandoned: 0, memoryBytes: 0, loopDelayMs: 0, duties: {}, startedAt: 0, writtenAt: 0, ttlMs: 4000 },
};

test("a worker whose notice ran out has left, and is told so once, whoever misses it; one that stops tells it itself", async () => {
  const platform = createVirtualPlatform();
  const store = await openSqliteStore({ path: ":memory:", platform });
  const mills = [1, 2, 3].map(() =>
    millOn({ ...store, close: async () => undefined }, { duties: false }, platform),
  );
  const options = { queues: { shared: { total: 6 } } };
  const workers = await Promise.all(
    mills.map((mill) => runUntil(platform, mill.work([handler(shared, () => undefined)], options))),
  );
  const left = async (): Promise<readonly string[]> => {
    const { records } = await store.readFeed({ after: 0, max: 100 });
    return records
      .flatMap(({ events }) => events)
      .filter(({ kind }) => kind === "worker-left")
      .map(({ id }) => id);
  };
  await store.putDocs([noticePut("ghost", lastNotice)]);
  await platform.time.advance(3_000_000);
  expect(await left()).toEqual([]);
  await platform.time.advance(8_000_000);
  expect(await left()).toEqual(["ghost"]);
  await runUntil(platform, (workers[0] as { stop(): Promise<unknown> }).stop());
  await platform.time.advance(10_000_000);
  expect(await left()).toEqual(["ghost", workers[0]?.id]);
  for (const mill of mills) await runUntil(platform, mill.close());
  await store.close();
});
