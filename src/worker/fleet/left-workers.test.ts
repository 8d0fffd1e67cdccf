import { expect, test } from "vitest";
import { aRegistration } from "../../../test/support/builders.ts";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { registrationPut } from "../../engine/fleet/registration.ts";

import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";

const shared = job<null>("shared", { queue: "shared" });

test("a worker whose registration expired has left, and an event says so once, whoever misses it; one that stops tells it itself", async () => {
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
  await store.putDocs([registrationPut("killed", aRegistration("ghost", { ttlMs: 4000 }))]);
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
