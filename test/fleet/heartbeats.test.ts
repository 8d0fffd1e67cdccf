/**
 * Heartbeats, on every store: after a process that stops cleanly another leads and others have its share of a total,
 * and settings, desired states and the first webhook arrive. The two sides are Millraces on connections of their own.
 * How soon is checked on the virtual clock (prompt-heartbeats.test.ts).
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { leaderId } from "../../src/engine/fleet/leadership.ts";
import { registryKind } from "../../src/engine/fleet/registration.ts";
import { webhookQueue } from "../../src/model/events/webhook.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";

const closeLater = closeAfterEach();
const secret = "a secret of enough length";
const shared = job<null>("shared", { queue: "shared" });
const work = (mill: Millrace, slots: number | { total: number }) =>
  mill.work([handler(shared, async () => undefined)], { queues: { shared: slots } });

const roles: [title: string, start: (mill: Millrace) => Promise<unknown>][] = [
  ["processes with workers", (mill) => work(mill, 4)],
  ["processes whose workers share a total", (mill) => work(mill, { total: 4 })],
  ["processes without workers", async (mill) => mill.duties.start()],
];

async function leaderOf(store: Store): Promise<string | null> {
  const { docs } = await store.readDocs({ kind: registryKind, ids: [leaderId] });
  return docs[0]?.body ?? null;
}

describe.each(usePlaces())("on %s, heartbeats", (_title, place) => {
  test.each(roles)("bring the duties of one that stops to other %s", async (_role, start) => {
    const at = place();
    const looking = closeLater(await at());
    const one = closeLater(millOn(await at()));
    await start(one);
    await until("the first leads", async () => (await leaderOf(looking)) !== null);
    const first = await leaderOf(looking);
    await start(closeLater(millOn(await at())));
    await one.close();
    await until("the other leads", async () => ![null, first].includes(await leaderOf(looking)));
    expect(await leaderOf(looking)).not.toBe(first);
  });

  test("bring the share of a worker that stops to the others", async () => {
    const at = place();
    const one = closeLater(millOn(await at()));
    const two = closeLater(millOn(await at()));
    const workers = [await work(one, { total: 6 }), await work(two, { total: 6 })];
    const shares = async (): Promise<string> =>
      (await one.workers.list()).map(({ slots }) => slots["shared"]).join();
    await until("each has its share", async () => (await shares()) === "3,3");
    await workers[1]?.stop();
    await until("the other has all", async () => (await shares()) === "6");
    expect(await shares()).toBe("6");
  });

  test("bring a setting and a desired state to an idle worker", async () => {
    const at = place();
    const operator = closeLater(millOn(await at(), { duties: false }));
    const worker = await work(closeLater(millOn(await at())), 4);
    const slots = async (): Promise<number | undefined> =>
      (await operator.workers.list())[0]?.slots["shared"];
    await until("it is listed", async () => (await slots()) === 4);
    await operator.queues.set("shared", { total: 2 });
    await until("it has fewer slots", async () => (await slots()) === 2);
    await operator.workers.stop(worker.id);
    await until("it is gone", async () => (await slots()) === undefined);
    expect(await slots()).toBeUndefined();
  });

  test("bring the first webhook to a process without workers", async () => {
    const at = place();
    const operator = closeLater(millOn(await at(), { duties: false }));
    const looking = closeLater(await at());
    closeLater(millOn(await at())).duties.start();
    await until("it leads", async () => (await leaderOf(looking)) !== null);
    const delivers = async (): Promise<boolean> =>
      (await operator.workers.list()).some(({ queues }) => queues.includes(webhookQueue));
    expect(await delivers()).toBe(false);
    await operator.webhooks.add("hook", { url: "http://127.0.0.1:9/", secret, kinds: "failed" });
    await until("it looks after webhooks", delivers);
  });
});
