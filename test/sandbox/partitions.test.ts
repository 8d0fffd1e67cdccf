// Follow-ups of a handler in a sandbox get their ids there: on a store in partitions they must lie beside their job.
import { expect, test } from "vitest";
import { createPlacement } from "../../src/model/routing/placement.ts";
import { partitionedStore } from "../../src/store/partitioned/partitioned-store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { everything } from "./handlers/jobs.ts";
import { everythingIn } from "./open-mill.ts";

const opened = closeAfterEach();

test("a follow-up lies in the partition of the job that made it", async () => {
  const open = () => openSqliteStore({ path: ":memory:", platform: nodePlatform });
  const stores = await Promise.all(Array.from({ length: 4 }, open));
  const mill = opened(millOn(partitionedStore(stores, { platform: nodePlatform })));
  await mill.work([everythingIn("thread")]);
  const handles = await Promise.all(
    Array.from({ length: 12 }, () => mill.enqueue(everything, { do: "follow" })),
  );
  for (const handle of handles) {
    const id = (await handle.result()) as string;
    expect(await mill.jobs.get(id)).toMatchObject({ name: "follow-up", state: "ready" });
  }
});

test("what lies in another partition is refused at its call, in the sandbox itself", async () => {
  const open = () => openSqliteStore({ path: ":memory:", platform: nodePlatform });
  const stores = await Promise.all(Array.from({ length: 4 }, open));
  const mill = opened(millOn(partitionedStore(stores, { platform: nodePlatform })));
  await mill.work([everythingIn("thread")]);
  const placement = createPlacement(4);
  expect(placement.ofName("17")).not.toBe(placement.ofName("18"));
  const handle = await mill.enqueue(everything, { do: "misplace" }, { id: "order-{17}" });
  expect(await handle.result()).toEqual(Array.from({ length: 3 }, () => "placement-conflict"));
  expect(await mill.kv.get("near-{17}")).toBe(2);
  expect(await mill.kv.get("far-{18}")).toBeUndefined();
});
