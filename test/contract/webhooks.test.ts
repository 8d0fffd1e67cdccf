// Webhooks on every store, delivered to a real server on this machine.
import { beforeEach, describe, expect, test } from "vitest";
import { handler, job, verifyWebhook } from "../../src/index.ts";
import type { Millrace } from "../../src/client/millrace.ts";
import type { WebhookOptions } from "../../src/index.ts";
import { MillraceError } from "../../src/model/error.ts";
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { openReceiver } from "../support/servers/webhook-receiver.ts";

const places = usePlaces();
const receiver = await openReceiver();
const greet = job<number>("greet", { queue: "people", tags: ["vip"] });
const other = job<number>("other");
const secret = "a secret of enough length";
const quick = { attempts: 3, backoff: 10 };
const webhooks = { allowPrivate: ["127.0.0.1"] };
const open = (store: Store): Millrace => millOn(store, { webhooks, duties: { webhooks: { sleep: "50ms" } } });

async function listed<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe.each(places)("webhooks on %s", (title, place) => {
  const closeLater = closeAfterEach();
  let mill: Millrace;
  let openStore: () => Promise<Store>;
  let path: string;
  let paths = 0;
  beforeEach(async () => {
    openStore = place();
    mill = closeLater(open(await openStore()));
    path = `/${title}-${++paths}`.replaceAll(" ", "-");
    receiver.answer = () => undefined;
  });
  const add = (name: string, given: Partial<WebhookOptions> = {}, who = mill) =>
    who.webhooks.add(name, { url: `${receiver.url}${path}`, secret, retry: quick, ...given });
  const received = () => receiver.all.filter((each) => each.path === path);
  const inputsOf = async (): Promise<unknown[]> =>
    Promise.all(
      received().map(async ({ body }) => (await mill.jobs.get(String(body.event["jobId"])))?.input),
    );

  test("events that a hook wants come signed, again after a failure, under one id; and its own never", async () => {
    const before = await mill.enqueue(greet, 0);
    await add("hook", { kinds: ["submitted", "completed"], queue: "people", name: "greet", tag: "vip" });
    let failures = 2;
    receiver.answer = () => (failures-- > 0 ? 500 : 200);
    mill.duties.start();
    const made = await mill.enqueue(greet, 1);
    await mill.enqueue(other, 2);
    await mill.enqueue(greet, 3, { tags: [] });
    await until("the submit was delivered", () => received().length >= 3);
    const worker = await mill.work([handler(greet, () => undefined)]);
    const isDone = async (): Promise<boolean> =>
      (await mill.jobs.counts())["millrace:webhooks"]?.completed === 3;
    await until("all deliveries are done", isDone);
    await worker.stop();
    const ids = received().map(({ id }) => id);
    expect([new Set(ids.slice(0, 3)).size, new Set(ids).size, ids.length]).toEqual([1, 3, 5]);
    const [first, , , ...ends] = received();
    expect(first!.body).toMatchObject({
      id: first!.id,
      webhook: "hook",
      event: {
        kind: "submitted",
        jobId: made.id,
        queue: "people",
        name: "greet",
        state: "ready",
        attempt: 0,
      },
    });
    expect(ends.map(({ body }) => body.event["kind"])).toEqual(["completed", "completed"]);
    expect(new Set(ends.map(({ body }) => body.event["jobId"]))).toEqual(new Set([before.id, made.id]));
    const check = { signature: first!.signature, body: first!.text };
    expect(verifyWebhook({ ...check, secret: ["another of them", secret] })).toBe(true);
    expect(verifyWebhook({ ...check, secret: "another of them" })).toBe(false);
  });

  test("what fails for good is a dead letter, which can be delivered again", async () => {
    await add("hook", { kinds: "submitted" });
    receiver.answer = () => 404;
    mill.duties.start();
    await mill.enqueue(other, 1);
    await mill.enqueue(other, 2);
    const dead = () => listed(mill.webhooks.dead("hook"));
    await until("both are dead", async () => (await dead()).length === 2);
    expect(received()).toHaveLength(6);
    const [newest] = await dead();
    expect(newest).toMatchObject({ webhook: "hook", event: { kind: "submitted", name: "other" } });
    expect(newest!.failures.at(-1)?.error?.message).toContain("answered 404");
    receiver.answer = () => 204;
    await mill.webhooks.redeliver({ id: newest!.id });
    await until("one came", async () => (await dead()).length === 1 && received().length === 7);
    expect(received().at(-1)?.id).toBe(newest!.id);
    await mill.webhooks.redeliver({ webhook: "hook" });
    await until("all came", async () => (await dead()).length === 0 && received().length === 8);
  });

  test("an ordered hook gets one delivery at a time, in the order of the events, over retries", async () => {
    await add("hook", { kinds: "submitted", queue: "people", ordered: true });
    let [atOnce, most, calls] = [0, 0, 0];
    receiver.answer = async () => {
      most = Math.max(most, ++atOnce);
      await new Promise((resolve) => setImmediate(resolve));
      atOnce -= 1;
      return ++calls % 3 === 0 ? 503 : 200;
    };
    const inputs = Array.from({ length: 12 }, (_, number) => number);
    for (const number of inputs) await mill.enqueue(greet, number);
    mill.duties.start();
    const good = () => received().filter((_, at) => (at + 1) % 3 !== 0);
    await until("all came", () => good().length === inputs.length);
    expect(most).toBe(1);
    const came = await inputsOf();
    // Over several partitions the order is promised inside a job only, so each partition's own order is looked at.
    const byPlace = (id: string): string => (title.includes("partitions") ? id.slice(8, 11) : "");
    const lines = Map.groupBy(
      good().map(({ body }) => ({
        id: String(body.event["jobId"]),
        at: received().findIndex((r) => r.body === body),
      })),
      ({ id }) => byPlace(id),
    );
    for (const line of lines.values()) {
      const numbers = line.map(({ at }) => came[at] as number);
      expect(numbers).toEqual(numbers.toSorted((one, two) => one - two));
    }
  });

  test("a receiver that hangs holds up no other", async () => {
    const events = 25;
    // The first by name, so that its deliveries are made and claimed first.
    const hanging = `${path}-hangs`;
    await add("a", {
      kinds: "submitted",
      url: receiver.url + hanging,
      timeout: "60s",
      retry: { attempts: 1 },
    });
    await add("b", { kinds: "submitted" });
    const over = Promise.withResolvers<undefined>();
    receiver.answer = ({ path: to }) => (to === path ? undefined : over.promise);
    await mill.enqueueMany(Array.from({ length: events }, (_, number) => other.with(number)));
    mill.duties.start();
    await until("the other got all", () => received().length === events);
    expect(receiver.all.filter((each) => each.path === hanging).length).toBeLessThanOrEqual(10);
    over.resolve(undefined);
    await until("all is over", async () => {
      const { completed } = (await mill.jobs.counts())["millrace:webhooks"] ?? {};
      return completed === 2 * events;
    });
  });

  test("a paused hook misses nothing, another address and secret hold at once, and a removed one gets nothing", async () => {
    await add("hook", { kinds: "submitted" });
    await mill.webhooks.pause("hook");
    mill.duties.start();
    await mill.enqueue(other, 1);
    await add("hook", { kinds: "submitted", secret: ["the first new secret", "the second new secret"] });
    expect(await mill.webhooks.get("hook")).toMatchObject({ paused: true, secrets: 2, gaps: 0 });
    expect(received()).toEqual([]);
    await mill.webhooks.resume("hook");
    await until("it came", () => received().length === 1);
    const { signature, text: body } = received()[0]!;
    for (const one of ["the first new secret", "the second new secret"])
      expect(verifyWebhook({ signature, body, secret: one })).toBe(true);
    expect(verifyWebhook({ signature, body, secret })).toBe(false);
    const id = await mill.webhooks.test("hook");
    await until("the test came", () => received().some((each) => each.id === id));
    expect(received().at(-1)?.body.event).toMatchObject({ kind: "test" });
    expect(await mill.webhooks.delete("hook")).toBe(true);
    expect(await mill.webhooks.delete("hook")).toBe(false);
    await mill.enqueue(other, 2);
    await mill.duties.run("webhooks");
    expect([received().length, await mill.webhooks.list()]).toEqual([2, []]);
  });

  test("two processes that read at once, whose submits fail or whose answers are lost, make one delivery per event", async () => {
    const random = createSeededRandom(`webhooks on ${title}`);
    const shaky = async (): Promise<Store> => {
      const store = await openStore();
      return {
        ...store,
        async submit(units) {
          const drawn = random.next();
          if (drawn < 0.2) throw new MillraceError("store-corrupt", "the process died before its submit");
          const answers = await store.submit(units);
          if (drawn < 0.4) throw new MillraceError("outcome-unknown", "the answer was lost");
          return answers;
        },
      };
    };
    await add("one", { kinds: "submitted" });
    await add("two", { kinds: "submitted", queue: "people" });
    const readers = [closeLater(open(await shaky())), closeLater(open(await shaky()))];
    for (let round = 0; round < 5; round++) {
      await mill.enqueueMany([greet.with(round), other.with(round), greet.with(round)]);
      await Promise.all(readers.map((each) => each.duties.run("webhooks").catch(() => undefined)));
    }
    await mill.duties.run("webhooks");
    const deliveries = await listed(mill.jobs.find({ queue: "millrace:webhooks" }));
    const of = (name: string): string[] =>
      deliveries
        .map(({ input }) => input as { hook: string; event: { jobId: string } })
        .filter(({ hook }) => hook === name)
        .map(({ event }) => event.jobId);
    expect([of("one").length, new Set(of("one")).size]).toEqual([15, 15]);
    expect([of("two").length, new Set(of("two")).size]).toEqual([10, 10]);
  });
});
