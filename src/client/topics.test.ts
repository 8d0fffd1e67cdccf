// Topics on virtual time, on a store of one partition and on one of four.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { aDoc } from "../../test/support/builders.ts";
import { millOn } from "../../test/support/mill-on.ts";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { limit } from "../engine/limits/limit-definition.ts";
import { subscription, topic } from "../engine/topics/topic-definition.ts";
import { handler } from "../worker/handler.ts";

interface User {
  userId: string;
}
const created = topic("user.created", { input: z.object({ userId: z.string() }) });
const welcome = job<User>("send-welcome", { queue: "email", tags: ["mail"] });
const index = job<User>("index-user");
const coded = (code: string) => expect.objectContaining({ code });

describe.each([1, 4])("topics on a store of %i partitions", (partitions) => {
  const v = useVirtualMill({}, partitions);
  const names = async (input: User = { userId: "1" }, mill = v.mill): Promise<string[]> =>
    (await v.run(mill.publish(created, input))).map((each) => each.subscription);

  test("a publish makes one job per subscription of the worker's code, and each knows where it came from", async () => {
    const ran: unknown[] = [];
    const handlers = [welcome, index].map((each) =>
      handler(each, ({ input, topic: by, headers }) => void ran.push([each.name, input, by, headers.tenant])),
    );
    const late = subscription(created, index, { name: "search", delay: "1m", queue: "slow" });
    const subscriptions = [subscription(created, welcome), late];
    await v.run(v.mill.work(handlers, { subscriptions, queues: ["email", "slow"] }));
    const jobs = await v.run(
      v.mill.publish(created, { userId: "7" }, { headers: { tenant: "t" }, tags: ["import"] }),
    );
    expect(jobs.map((each) => [each.subscription, each.handle.how])).toEqual([
      ["search", "created"],
      ["send-welcome", "created"],
    ]);
    const by = (name: string): unknown => ({ name: "user.created", subscription: name });
    await v.run(jobs[1]!.handle.result());
    expect(ran).toEqual([["send-welcome", { userId: "7" }, by("send-welcome"), "t"]]);
    await v.advance(60_000);
    expect(ran[1]).toEqual(["index-user", { userId: "7" }, by("search"), "t"]);
    expect(await v.run(v.mill.jobs.get(jobs[1]!.handle.id))).toMatchObject({
      queue: "email",
      tags: ["mail", "import"],
      topic: by("send-welcome"),
    });
  });

  test("publishing to an undeclared topic is an error, and to one without subscriptions makes no job", async () => {
    await expect(v.run(v.mill.publish(created, { userId: "1" }))).rejects.toEqual(coded("unknown-topic"));
    await expect(v.run(v.mill.topics.unsubscribe("user.created", "x"))).rejects.toEqual(
      coded("unknown-topic"),
    );
    await v.run(v.mill.topics.declare(created));
    expect(await names()).toEqual([]);
    await v.run(millOn(v.store, {}, v.platform).topics.subscribe(created, index));
    expect(await names()).toEqual(["index-user"]);
    expect(await v.run(v.mill.topics.delete(created))).toBe(true);
    expect(await v.run(v.mill.topics.delete(created))).toBe(false);
    await expect(v.run(v.mill.publish(created, { userId: "1" }))).rejects.toEqual(coded("unknown-topic"));
  });

  test("changes of subscriptions by another process hold from the next publish on", async () => {
    const other = millOn(v.store, {}, v.platform);
    await v.run(v.mill.topics.subscribe(created, index));
    expect(await names()).toEqual(["index-user"]);
    await v.run(other.topics.subscribe(created, welcome));
    expect(await names()).toEqual(["index-user", "send-welcome"]);
    await v.run(other.topics.pause(created, "index-user"));
    expect(await names()).toEqual(["send-welcome"]);
    expect(await v.run(other.topics.unsubscribe(created, "send-welcome"))).toBe(true);
    expect(await v.run(other.topics.unsubscribe(created, "send-welcome"))).toBe(false);
    expect(await names()).toEqual([]);
    await v.run(other.topics.resume(created, "index-user"));
    expect(await names()).toEqual(["index-user"]);
    await expect(v.run(other.topics.pause(created, "nobody"))).rejects.toEqual(coded("unknown-subscription"));
    expect(await v.run(v.mill.topics.list())).toEqual([
      {
        name: "user.created",
        problem: null,
        subscriptions: [{ name: "index-user", job: "index-user", queue: "default", paused: false }],
      },
    ]);
  });

  test("defining a subscription again unchanged keeps a pause; another definition replaces it", async () => {
    const version = async (): Promise<number | undefined> =>
      (await v.run(v.store.readDocs({ kind: "topic", ids: ["user.created"] }))).docs[0]?.version;
    await v.run(v.mill.topics.subscribe(created, welcome));
    await v.run(v.mill.topics.pause(created, "send-welcome"));
    const before = await version();
    const other = millOn(v.store, {}, v.platform);
    await v.run(other.topics.subscribe(created, welcome));
    expect(await version()).toBe(before);
    expect(await v.run(other.topics.subscribe(created, welcome, { queue: "other" }))).toMatchObject({
      subscriptions: [{ name: "send-welcome", queue: "other", paused: true }],
    });
  });

  test("a publish repeated with its id makes no second job, also with another input or after a lost reply", async () => {
    await v.run(v.mill.topics.subscribe(created, welcome));
    await v.run(v.mill.topics.subscribe(created, index));
    const publish = (input: User, id: string) => v.run(v.mill.publish(created, input, { id }));
    const first = await publish({ userId: "1" }, "signup-1");
    const again = await publish({ userId: "1" }, "signup-1");
    expect(again.map(({ handle }) => [handle.id, handle.how])).toEqual(
      first.map(({ handle }) => [handle.id, "existing"]),
    );
    await expect(publish({ userId: "2" }, "signup-1")).rejects.toEqual(coded("id-conflict"));
    const other = await publish({ userId: "1" }, "signup-2");
    expect(new Set([...first, ...other].map(({ handle }) => handle.id)).size).toBe(4);
  });

  test("wrong arguments are refused before any write", async () => {
    await v.run(v.mill.topics.subscribe(created, index));
    const wrong = { userId: 7 } as unknown as User;
    const refused: [string, () => Promise<unknown>][] = [
      ["invalid-input", () => v.mill.publish(created, wrong)],
      ["invalid-option", () => v.mill.publish(created, { userId: "1" }, { priority: 1 } as never)],
      ["invalid-name", () => v.mill.publish(created, { userId: "1" }, { id: "" })],
      ["invalid-option", () => v.mill.publish("user.created" as never, {})],
      ["invalid-option", () => v.mill.topics.subscribe({} as typeof created, index)],
      ["invalid-option", () => v.mill.topics.subscribe(created, {} as never)],
      ["invalid-option", () => v.mill.topics.subscribe(created, index, { runAt: new Date() } as never)],
      ["invalid-option", () => v.mill.topics.subscribe(created, index, { group: (user) => user.userId })],
      ["invalid-option", () => v.mill.topics.subscribe(created, index, { unique: { fields: ["userId"] } })],
      ["invalid-option", () => v.mill.work([handler(index, () => 1)], { subscriptions: [{} as never] })],
    ];
    for (const [code, act] of refused)
      await expect(v.run((async () => act())())).rejects.toEqual(coded(code));
    const twice = [subscription(created, index), subscription(created, index, { queue: "other" })];
    const work = v.mill.work([handler(index, () => 1)], { subscriptions: twice });
    await expect(v.run(work)).rejects.toEqual(coded("subscription-conflict"));
    expect(() => topic("x", { schema: 1 } as never)).toThrow(coded("invalid-option"));
    expect(() => topic("")).toThrow(coded("invalid-name"));
    expect((await v.run(v.mill.jobs.list())).jobs).toEqual([]);
    expect((await v.run(v.mill.topics.list()))[0]?.subscriptions).toHaveLength(1);
  });

  test("a queue with a closed intake refuses the whole publish", async () => {
    await v.run(v.mill.topics.subscribe(created, welcome));
    await v.run(v.mill.topics.subscribe(created, index));
    await v.run(v.mill.queues.closeIntake("email"));
    await expect(v.run(v.mill.publish(created, { userId: "1" }))).rejects.toEqual(coded("intake-closed"));
    expect((await v.run(v.mill.jobs.list())).jobs).toEqual([]);
  });

  test("a topic that this process cannot read is shown as such, and stops neither a worker nor other topics", async () => {
    await v.run(v.store.putDocs([aDoc("user.created", "?", { kind: "topic" })]));
    await v.run(v.mill.work([handler(index, () => 1)], { subscriptions: [subscription(created, index)] }));
    await expect(v.run(v.mill.publish(created, { userId: "1" }))).rejects.toEqual(coded("topic-unreadable"));
    expect(await v.run(v.mill.topics.list())).toMatchObject([
      { name: "user.created", subscriptions: [], problem: expect.stringContaining("JSON") },
    ]);
  });

  test("enqueue middleware sees each job of a publish, and may add headers", async () => {
    const seen: unknown[] = [];
    const mill = millOn(
      v.store,
      {
        middleware: [
          async (submission, next) => {
            seen.push([submission.job.name, submission.input]);
            await next({ ...submission, options: { ...submission.options, headers: { by: "middleware" } } });
          },
        ],
      },
      v.platform,
    );
    await v.run(mill.topics.subscribe(created, welcome));
    const [made] = await v.run(mill.publish(created, { userId: "1" }));
    expect(seen).toEqual([["send-welcome", { userId: "1" }]]);
    expect(await v.run(mill.jobs.get(made!.handle.id))).toMatchObject({ headers: { by: "middleware" } });
  });
});

describe("limits of a subscription's jobs", () => {
  const one = useVirtualMill({}, 1);
  const four = useVirtualMill({}, 4);
  const slow = limit("slow", { concurrency: 1 });

  test("hold on a store of one partition", async () => {
    await one.run(one.mill.topics.subscribe(created, index, { limits: [slow] }));
    await one.run(one.mill.publish(created, { userId: "1" }));
    await one.run(one.mill.publish(created, { userId: "2" }));
    expect((await one.run(one.store.claim({ owner: "w", leaseMs: 1000, offers: [] }))).jobs).toEqual([]);
    let most = 0;
    let running = 0;
    await one.run(
      one.mill.work([
        handler(index, async () => {
          most = Math.max(most, ++running);
          await new Promise((resolve) => one.platform.setTimer(10, () => resolve(null)));
          running -= 1;
        }),
      ]),
    );
    await one.advance(5000);
    expect(most).toBe(1);
    expect(await one.run(one.mill.jobs.counts())).toEqual({ default: { completed: 2 } });
  });

  test("are refused on several partitions if the topic lies in another one than the limits", async () => {
    const subscribe = (name: string) =>
      four.run(four.mill.topics.subscribe(topic<User>(name), index, { limits: [slow] }));
    const ends = await Promise.allSettled(["a", "b", "l"].map(subscribe));
    const reasons = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
    expect(reasons.length).toBeGreaterThan(0);
    expect(reasons.length).toBeLessThan(3);
    for (const reason of reasons) expect(reason).toEqual(coded("placement-conflict"));
  });
});
