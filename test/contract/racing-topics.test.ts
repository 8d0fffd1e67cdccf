/**
 * Publishers against operators on every store, each on connections of its own: a publish makes a job for each
 * subscription that the topic had at one moment between its call and its answer, for all of them or none, and none for
 * a subscription whose removal was answered before the publish began. Also where replies are lost.
 */
import pg from "pg";
import { describe, expect, test } from "vitest";
import { MillraceError } from "../../src/model/error.ts";
import { readMeta } from "../../src/model/job/job-meta.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { job, topic } from "../../src/index.ts";
import type { Millrace } from "../../src/client/millrace.ts";
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { findAll } from "../support/walk.ts";

const places = usePlaces();
const placed = topic<number>("order.placed");
const handle = job<number>("handle-order");
const all = ["a", "b", "c", "d", "e"];
const publishers = 3;
const operators = 2;
const changes = 25;

/** One submit in twenty happens while its answer is lost. */
function withLostReplies(store: Store, random: { next(): number }): Store {
  return {
    ...store,
    async submit(units) {
      const answers = await store.submit(units);
      if (random.next() < 0.05) throw new MillraceError("outcome-unknown", "the answer was lost");
      return answers;
    },
  };
}

/** What happened, in the order in which this process heard of it. */
interface EmittedEvent {
  readonly at: number;
  readonly until: number;
}
interface Change extends EmittedEvent {
  readonly name: string;
  readonly adds: boolean;
}

describe.each(places)("on %s", (title, place) => {
  const closeLater = closeAfterEach();

  test("each publish reaches the subscriptions of one moment, whoever changes them", async () => {
    const random = createSeededRandom(`racing topics on ${title}`);
    const open = place();
    const store = await open();
    const mill = closeLater(millOn(store));
    await mill.topics.declare(placed);
    const history: Change[] = [];
    const published: (EmittedEvent & { readonly number: number; readonly names: readonly string[] })[] = [];
    let [step, numbers] = [0, 0];
    let someAnswer = Promise.withResolvers<void>();
    const operate = async (own: Millrace): Promise<void> => {
      for (let count = 0; count < changes; count++) {
        const name = random.pick(all);
        const adds = random.next() < 0.5;
        const at = ++step;
        if (adds) await own.topics.subscribe(placed, handle, { name });
        else await own.topics.unsubscribe(placed, name);
        history.push({ at, until: ++step, name, adds });
        // Some embedded store would let an operator do all of its changes in one flush.
        if (random.next() < 0.5) await someAnswer.promise;
      }
    };
    let operating = operators;
    const publish = async (own: Millrace): Promise<void> => {
      while (operating > 0) {
        const number = ++numbers;
        const at = ++step;
        const jobs = await own.publish(placed, number);
        const names = jobs.map(({ subscription }) => subscription);
        published.push({ at, until: ++step, number, names });
        someAnswer.resolve();
        someAnswer = Promise.withResolvers<void>();
      }
    };
    const mills: Millrace[] = [];
    for (let count = 0; count < operators + publishers; count++) {
      const own = await open();
      mills.push(closeLater(millOn(count < operators ? own : withLostReplies(own, random))));
    }
    await Promise.all(
      mills.map((own, at) => (at < operators ? operate(own).finally(() => (operating -= 1)) : publish(own))),
    );

    const made = Map.groupBy(await findAll(store), ({ input }) => Number(input));
    for (const { number, names, at, until } of published) {
      const subscriptions = (made.get(number) ?? []).map(({ meta }) => readMeta(meta).topic!.subscription);
      expect(subscriptions.toSorted()).toEqual(names);
      for (const name of all) expect(mayBe(history, name, names.includes(name), { at, until })).toBe(true);
    }
    expect([...made.keys()].every((number) => published.some((each) => each.number === number))).toBe(true);
    expect(new Set(published.map(({ names }) => names.join())).size).toBeGreaterThan(3);
  });
});

/** Whether the subscription may have been there, or not, at a moment of the publish. */
function mayBe(history: readonly Change[], name: string, isThere: boolean, publish: EmittedEvent): boolean {
  const own = history.filter((change) => change.name === name);
  const during = own.filter(({ at, until }) => at < publish.until && until > publish.at);
  if (during.some(({ adds }) => adds === isThere)) return true;
  // Of the changes that had ended before it began, the last one decides; those that ran at once may have had any order.
  const before = own.filter(({ until }) => until < publish.at);
  const lastAt = Math.max(0, ...before.map(({ at }) => at));
  const last = before.filter(({ until }) => until >= lastAt);
  return last.length === 0 ? !isThere : last.some(({ adds }) => adds === isThere);
}

describe("in the caller's own transaction on Postgres", () => {
  const database = useTestDatabase();
  const closeLater = closeAfterEach();

  test("a publish holds until the commit: an unsubscribe waits for it, and one before it is seen", async () => {
    const open = () => openPostgresStore({ url: database.url, platform: nodePlatform, schema: "topic_tx" });
    const [mill, other] = [closeLater(millOn(await open())), closeLater(millOn(await open()))];
    await mill.topics.subscribe(placed, handle, { name: "a" });
    await mill.topics.subscribe(placed, handle, { name: "b" });
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const count = async (): Promise<number> => (await mill.jobs.list()).jobs.length;
    try {
      await client.query("BEGIN");
      expect((await mill.in(client).publish(placed, 1)).map(({ subscription }) => subscription)).toEqual([
        "a",
        "b",
      ]);
      let isDeleted = false;
      const removing = other.topics.unsubscribe(placed, "a").then(() => (isDeleted = true));
      // Others publish meanwhile: checks do not exclude one another.
      expect(await other.publish(placed, 2)).toHaveLength(2);
      expect([isDeleted, await count()]).toEqual([false, 2]);
      await client.query("COMMIT");
      await removing;
      expect(await count()).toBe(4);
      await client.query("BEGIN");
      expect((await mill.in(client).publish(placed, 3)).map(({ subscription }) => subscription)).toEqual([
        "b",
      ]);
      await client.query("ROLLBACK");
      expect(await count()).toBe(4);
    } finally {
      await client.end();
    }
  });
});
