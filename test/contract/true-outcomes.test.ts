/**
 * `outcome: "did-not-happen"` is true: each public method is called while each reply of the store is lost, and while
 * the store is away from each call on. If the error says that nothing happened, the store has applied no write, not
 * even later. And one lost reply is not seen at all: the call is repeated, and answers.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { budget, flow, handler, job, limit, queue, topic } from "../../src/index.ts";
import type { Budget, Flow, Millrace } from "../../src/index.ts";
import { isMillraceError } from "../../src/model/error.ts";
import type { Store } from "../../src/store/store.ts";
import { hangMs } from "../support/hang-ms.ts";
import { losingStore } from "../support/stores/losing-store.ts";
import type { Loss } from "../support/stores/losing-store.ts";
import { millOn } from "../support/mill-on.ts";
import { eachStore } from "../support/servers/each-store.ts";

const mail = job<number, number>("mail", { queue: "mail" });
const run = job<number, number>("run", {
  queue: "runs",
  durable: { version: 1 },
  signals: { go: anything() },
});
const secret = "a secret of enough length";
const hook = { url: "https://example.com/hook", secret };

/** A schema that takes everything. */
function anything(): never {
  const validate = (value: unknown): object => ({ value });
  return { "~standard": { version: 1, vendor: "test", validate } } as never;
}

function aFlow(): Flow {
  const made = flow("f");
  made.add("a", mail, 1);
  return made;
}

function aBudget(name: string): Budget {
  return budget(name, { hard: 5, reset: { every: "1h" } });
}

/** What a method finds: names of its own, and ids of things that were made for it. */
interface Made {
  readonly name: string;
  readonly waiting: string;
  readonly failed: string;
  readonly flow: string;
  readonly run: string;
  readonly token: string;
  readonly version: number;
}

type Line = (mill: Millrace, made: Made) => unknown;

async function all(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _item of items) void _item;
}

/** Why a public method has no line of its own. */
const without: Readonly<Record<string, string>> = {
  in: "its outcome is that of the caller's transaction",
  events: "a stream, which reads again by itself",
  on: "a stream, which reads again by itself",
  work: "it starts something, and is tried in store-outages.test.ts",
  "duties.start": "it makes no call",
  "duties.stop": "internal, by close",
  handle: "it makes no call",
  frames: "a stream, which reads again by itself",
  close: "it ends the calls of others",
  "limits.acquire": "a permit is a lease: one whose reply was lost ends by itself",
  "flows.run": "it makes no call",
  "flows.keyed": "it makes no call",
  "flows.submit": "internal, by submit",
  "flows.result": "internal, by FlowRun.result",
};

const lines: Readonly<Record<string, Line>> = {
  enqueue: (mill) => mill.enqueue(mail, 1),
  enqueueMany: (mill) => mill.enqueueMany([mail.with(1), mail.with(2)]),
  call: (mill) => mill.call(mail, 1, { timeout: 30 }),
  publish: (mill, { name }) => mill.publish(topic(name), 1),
  submit: (mill, { name }) => mill.submit(aFlow(), { key: name }),
  schedule: (mill, { name }) => mill.schedule(`new-${name}`, mail, 1, { every: "1h" }),
  signal: (mill, made) => mill.signal(made.run, "go", 1, { key: made.name }),
  broadcast: (mill, { name }) => mill.broadcast({ tag: name }, "go", 1),
  "duties.run": (mill) => mill.duties.run("promote"),
  "duties.list": (mill) => mill.duties.list(),
  "duties.quarantined": (mill) => mill.duties.quarantined(),
  "unreadable.list": (mill) => mill.unreadable.list(),
  "unreadable.delete": (mill) => mill.unreadable.delete(["none"]),
  explain: (mill, { waiting }) => mill.explain(waiting),
  describe: (mill) => mill.describe(),
  output: (mill, { waiting }) => mill.output(waiting),
  "jobs.get": (mill, { waiting }) => mill.jobs.get(waiting),
  "jobs.list": (mill, { name }) => mill.jobs.list({ tag: name }),
  "jobs.find": (mill, { name }) => all(mill.jobs.find({ tag: name })),
  "jobs.counts": (mill) => mill.jobs.counts(),
  "jobs.logs": (mill, { waiting }) => mill.jobs.logs(waiting),
  "jobs.cancel": (mill, { waiting }) => mill.jobs.cancel(waiting),
  "jobs.retry": (mill, { failed }) => mill.jobs.retry(failed),
  "jobs.delete": (mill, { waiting }) => mill.jobs.delete(waiting),
  "jobs.runNow": (mill, { waiting }) => mill.jobs.runNow(waiting),
  "jobs.reschedule": (mill, { waiting }) => mill.jobs.reschedule(waiting, { delay: "2h" }),
  "jobs.edit": (mill, { waiting }) => mill.jobs.edit(waiting, { input: 2 }),
  "jobs.revoke": (mill, { waiting }) => mill.jobs.revoke(waiting),
  "kv.get": (mill, { name }) => mill.kv.get(name),
  "kv.getEntry": (mill, { name }) => mill.kv.getEntry(name),
  "kv.put": (mill, { name }) => mill.kv.put(name, 2),
  "kv.delete": (mill, { name }) => mill.kv.delete(name),
  "kv.scan": (mill, { name }) => all(mill.kv.scan(name)),
  "queues.settings": (mill, { name }) => mill.queues.settings(name),
  "queues.list": (mill) => mill.queues.list(),
  "queues.pause": (mill, { name }) => mill.queues.pause(name),
  "queues.resume": (mill, { name }) => mill.queues.resume(name),
  "queues.closeIntake": (mill, { name }) => mill.queues.closeIntake(name),
  "queues.openIntake": (mill, { name }) => mill.queues.openIntake(name),
  "queues.define": (mill, { name }) => mill.queues.define(queue(name, { concurrency: 100 })),
  "queues.reset": (mill, { name }) => mill.queues.reset(name),
  "queues.set": (mill, { name }) => mill.queues.set(name, { concurrency: 100 }),
  "limits.define": (mill, { name }) => mill.limits.define(limit(`new-${name}`, { concurrency: 2 })),
  "limits.state": (mill, { name }) => mill.limits.state(name),
  "limits.list": (mill) => mill.limits.list(),
  "limits.edit": (mill, { name }) => mill.limits.edit(name, { concurrency: 3 }),
  "limits.reset": (mill, { name }) => mill.limits.reset(name),
  "limits.throttle": (mill, { name }) => mill.limits.throttle(name, { retryAfter: "1m" }),
  "metrics.read": (mill) => mill.metrics.read(),
  "metrics.store": (mill) => mill.metrics.store(),
  "metrics.requests": (mill) => mill.metrics.requests(),
  "metrics.queues": (mill) => mill.metrics.queues(),
  "metrics.prometheus": (mill) => mill.metrics.prometheus(),
  "schedules.list": (mill) => mill.schedules.list(),
  "schedules.get": (mill, { name }) => mill.schedules.get(name),
  "schedules.pause": (mill, { name }) => mill.schedules.pause(name),
  "schedules.resume": (mill, { name }) => mill.schedules.resume(name),
  "schedules.edit": (mill, { name }) => mill.schedules.edit(name, { every: "2h" }),
  "schedules.reset": (mill, { name }) => mill.schedules.reset(name),
  "schedules.runNow": (mill, { name }) => mill.schedules.runNow(name),
  "schedules.delete": (mill, { name }) => mill.schedules.delete(name),
  "schedules.next": (mill, { name }) => mill.schedules.next(name),
  "schedules.backfill": (mill, { name }) => mill.schedules.backfill(name, { from: 0, to: 7_200_000 }),
  "schedules.backfillProgress": (mill, { name }) => mill.schedules.backfillProgress(name),
  "schedules.stopBackfill": (mill, { name }) => mill.schedules.stopBackfill(name),
  "topics.list": (mill) => mill.topics.list(),
  "topics.get": (mill, { name }) => mill.topics.get(name),
  "topics.declare": (mill, { name }) => mill.topics.declare(`new-${name}`),
  "topics.subscribe": (mill, { name }) =>
    mill.topics.subscribe(topic<number>(name), mail, { name: "second" }),
  "topics.unsubscribe": (mill, { name }) => mill.topics.unsubscribe(name, "first"),
  "topics.pause": (mill, { name }) => mill.topics.pause(name, "first"),
  "topics.resume": (mill, { name }) => mill.topics.resume(name, "first"),
  "topics.delete": (mill, { name }) => mill.topics.delete(name),
  "flows.get": (mill, made) => mill.flows.get(made.flow),
  "flows.list": (mill) => mill.flows.list(),
  "flows.nodes": (mill, made) => mill.flows.nodes(made.flow),
  "flows.cancel": (mill, made) => mill.flows.cancel(made.flow),
  "flows.retry": (mill, made) => mill.flows.retry(made.flow),
  "webhooks.add": (mill, { name }) => mill.webhooks.add(`new-${name}`, hook),
  "webhooks.delete": (mill, { name }) => mill.webhooks.delete(name),
  "webhooks.list": (mill) => mill.webhooks.list(),
  "webhooks.get": (mill, { name }) => mill.webhooks.get(name),
  "webhooks.pause": (mill, { name }) => mill.webhooks.pause(name),
  "webhooks.resume": (mill, { name }) => mill.webhooks.resume(name),
  "webhooks.test": (mill, { name }) => mill.webhooks.test(name),
  "webhooks.dead": (mill, { name }) => all(mill.webhooks.dead(name)),
  "webhooks.redeliver": (mill, made) => mill.webhooks.redeliver({ id: made.failed }),
  "workers.list": (mill) => mill.workers.list(),
  "workers.quiet": (mill) => mill.workers.quiet("steady"),
  "workers.resume": (mill) => mill.workers.resume("steady"),
  "workers.stop": (mill) => mill.workers.resume("steady"),
  "approvals.token": (mill, made) => mill.approvals.token(made.run, "go", { source: "a", expires: "1h" }),
  "approvals.look": (mill, made) => mill.approvals.look(made.token),
  "approvals.answer": (mill, made) => mill.approvals.answer(made.token, 1),
  "approvals.rotateKeys": (mill) => mill.approvals.rotateKeys({ grace: "1h" }),
  "budgets.define": (mill, { name }) => mill.budgets.define(aBudget(`new-${name}`)),
  "budgets.list": (mill) => mill.budgets.list(),
  "budgets.get": (mill, { name }) => mill.budgets.get(name),
  "budgets.edit": (mill, { name }) => mill.budgets.edit(name, { hard: 7 }),
  "budgets.reset": (mill, { name }) => mill.budgets.reset(name),
  "budgets.refund": (mill, { name }) => mill.budgets.refund(name, 1),
  "runs.get": (mill, made) => mill.runs.get(made.run),
  "runs.check": (mill) => mill.runs.check([]),
  "runs.waiting": (mill, { name }) => mill.runs.waiting({ name }),
  "retention.get": (mill) => mill.retention.get(),
  "retention.set": (mill, { version }) => mill.retention.set({ failed: { age: 86_400_000 + version } }),
};

/** There is no worker for the call, no running job to revoke, nothing to refund. A repeat of the others would
 * count otherwise. */
const refused = ["call", "jobs.revoke", "budgets.refund"];
const unrepeated = [...refused, "unreadable.delete", "duties.run"];

const parts = [
  ...(["budgets", "duties", "unreadable"] as const),
  ...(["jobs", "kv", "queues", "limits", "metrics", "schedules", "topics", "flows"] as const),
  ...(["webhooks", "workers", "approvals", "runs"] as const),
];

function methodsOf(part: object): readonly string[] {
  const own = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(part) as object);
  return Object.entries(own).flatMap(([name, { value }]) =>
    typeof value === "function" && name !== "constructor" ? [name] : [],
  );
}

describe.each(eachStore())("on %s", (_title, open) => {
  let real: Store;
  let steady: Millrace;
  let count = 0;

  beforeAll(async () => {
    real = await open();
    steady = millOn(real, { metrics: false });
    await steady.work([handler(job<number, number>("idle", { queue: "idle" }), () => 0)], {
      label: "steady",
    });
    await steady.workers.list();
  }, hangMs);
  afterAll(async () => {
    await steady.close();
  });

  const make = async (method: string): Promise<Made> => {
    const name = `thing-${(count += 1)}`;
    const [part] = method.split(".");
    const delay = "1h";
    const [waiting, failed, started] = await steady.enqueueMany([
      mail.with(1, { delay, tags: [name] }),
      mail.with(1, { deadline: 1 }),
      run.with(1, { delay, tags: [name] }),
    ]);
    if (part === "kv") await steady.kv.put(name, 1);
    if (part === "limits") await steady.limits.define(limit(name, { concurrency: 5 }));
    if (part === "budgets") await steady.budgets.define(aBudget(name));
    if (part === "schedules") await steady.schedule(name, mail, 1, { every: "1h" });
    if (part === "topics" || part === "publish")
      await steady.topics.subscribe(topic<number>(name), mail, { name: "first" });
    if (part === "webhooks") await steady.webhooks.add(name, hook);
    const whole = part === "flows" ? await steady.submit(aFlow()) : null;
    if (method === "flows.retry") {
      await whole?.cancel();
      await whole?.result().catch(() => undefined);
    }
    const token =
      part === "approvals"
        ? await steady.approvals.token(started.id, "go", { source: name, expires: "1h" })
        : "";
    return {
      ...{ name, waiting: waiting.id, failed: failed.id, run: started.id, token, version: count },
      flow: whole?.id ?? "",
    };
  };

  test("every public method has a line", () => {
    const own = methodsOf(steady);
    const ofParts = parts.flatMap((part) => methodsOf(steady[part]).map((name) => `${part}.${name}`));
    const known = [...Object.keys(lines), ...Object.keys(without)];
    expect([...own, ...ofParts].filter((name) => !known.includes(name))).toEqual([]);
  });

  const attempt = async (
    method: string,
    loss: Loss,
    from: number,
    giveUp: number,
  ): Promise<{ error: unknown; calls: number; applied: number }> => {
    const made = await make(method);
    const losing = losingStore(real);
    const mill = millOn({ ...losing.store, close: async () => undefined } as Store, {
      giveUp,
      metrics: false,
    });
    losing.lose(loss, from);
    let error: unknown = null;
    try {
      await lines[method]?.(mill, made);
    } catch (thrown) {
      error = thrown;
    }
    const { calls } = losing.seen;
    await mill.close();
    if (method.startsWith("webhooks."))
      for (const hooked of [made.name, `new-${made.name}`]) await steady.webhooks.delete(hooked);
    return { error, calls, applied: losing.seen.applied };
  };

  test.each(Object.keys(lines))(
    "%s tells whether it happened, whichever reply is lost",
    async (name) => {
      const clean = await attempt(name, "none", 0, 10_000);
      if (!refused.includes(name)) expect(clean.error).toBeNull();
      const places = Array.from({ length: Math.min(clean.calls, 12) }, (_, at) => at + 1);
      await Promise.all(
        places.map(async (from) => {
          // If nothing is written, there is only one way to lose all replies.
          if (clean.applied === 0 && from > 1) return;
          for (const loss of ["one reply", "all replies", "the store"] as const) {
            const giveUp = loss === "one reply" ? 10_000 : 40;
            const { error, applied } = await attempt(name, loss, from, giveUp);
            if (loss === "one reply" && !unrepeated.includes(name))
              expect([from, error]).toEqual([from, null]);
            if (error === null) continue;
            const told = isMillraceError(error) ? error.outcome : error;
            expect([loss, from, told]).toEqual([loss, from, applied > 0 ? "unknown" : expect.anything()]);
          }
        }),
      );
    },
    hangMs,
  );
});
