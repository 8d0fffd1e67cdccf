// The page of all options names exactly the options that the code knows. The code is asked as a user would ask it: an
// option that nobody knows is refused by an error that lists the known ones. The guide that says what `millrace work`
// takes is held against the command in the same way.
import { readFileSync } from "node:fs";
import {
  batchHandler,
  commandHandler,
  defineConfig,
  fileHandler,
  flow,
  handler,
  job,
  budget,
  limit,
  Millrace,
  queue,
  programHandler,
  subscription,
  Throttled,
  topic,
  verifyWebhook,
} from "millrace";
import type { JobOptions, JobView, MillraceOptions, VerifyOptions, WebhookOptions } from "millrace";
import { openTelemetry } from "millrace/opentelemetry";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { storeOptions } from "../../src/cli/command.ts";
import { work } from "../../src/cli/fleet/work.ts";
import { dutyNames, oncePerStore } from "../../src/engine/duties/duty-tuning.ts";
import { ownKeys } from "../../src/engine/submit/job-options.ts";

const page = readFileSync(new URL("../../docs/reference/options.md", import.meta.url), "utf8");
const asked = { "no-such-option": true } as object;

let mill: Millrace;
beforeAll(async () => {
  mill = await Millrace.open("sqlite::memory:");
});
afterAll(() => mill.close());

const plain = job("plain");
const open = (options: object) => () => Millrace.open("sqlite::memory:", options as MillraceOptions);
const define = (options: object) => () => job("asked", options as JobOptions & { input?: undefined });

const enqueueHeading = "`mill.enqueue(job, input, options)`";
const addHeading = "`flow.add(name, job, input, options)`";
const mapHeading = "`flow.map(name, job, list, options)`";
const callHeading = "`mill.call(job, input, options)`";

/** By the heading of its table: a call whose error lists the known options. */
const calls: Readonly<Record<string, () => unknown>> = {
  "`job(name, options)`": define(asked),
  [enqueueHeading]: () => mill.enqueue(plain, {}, asked),
  "`group`": define({ group: asked as { key: string } }),
  "`retry`": define({ retry: asked }),
  "`retry.backoff`": define({ retry: { backoff: asked } }),
  "`retry.retryIf`": define({ retry: { retryIf: asked } }),
  "`unique`": define({ unique: asked }),
  "`retention`": define({ retention: asked }),
  "`retention` by count": open({ retention: { completed: asked } }),
  "`limit(name, options)`": () => limit("asked", asked),
  "`budget(name, options)`": () => budget("asked", asked as never),
  "`rate`": () => limit("asked", { rate: asked as { max: number; per: number } }),
  "`learn`": () => limit("asked", { concurrency: 1, learn: asked }),
  "`limit.use(options)`": () => limit("asked").use(asked),
  "`new Throttled(limit, options)`": () => new Throttled("asked", asked),
  "`mill.queues.pause(queue, options)`": () => mill.queues.pause("asked", asked),
  "`queue(name, defaults)`": () => queue("asked", asked),
  "`mill.queues.set(queue, options)`": () => mill.queues.set("asked", asked),
  "`mill.limits.edit(name, options)`": () => mill.limits.edit("asked", asked),
  "`mill.limits.throttle(name, options)`": () => mill.limits.throttle("asked", asked),
  "`mill.limits.acquire(limit, options)`": () => mill.limits.acquire("asked", asked),
  "`mill.schedule(name, job, input, options)`": () =>
    mill.schedule("asked", plain, {}, asked as { every: "1m" }),
  "`calendar`": () => mill.schedule("asked", plain, {}, { calendar: { at: "03:00", ...asked } }),
  "`calendar.every`": () =>
    mill.schedule("asked", plain, {}, { calendar: { at: "03:00", every: { from: "2026-01-01", ...asked } } }),
  "`mill.schedules.edit(name, options)`": async () => {
    await mill.schedule("edited", plain, {}, { every: "1h" });
    await mill.schedules.edit("edited", asked);
  },
  "`mill.schedules.backfill(name, options)`": async () => {
    await mill.schedule("edited", plain, {}, { every: "1h" });
    await mill.schedules.backfill("edited", { from: 0, to: 1, ...asked });
  },
  "`flow(name, options)`": () => flow("asked", asked),
  "`mill.submit(flow, options)`": () => mill.submit(flow("asked"), asked),
  [addHeading]: () => flow("asked").add("node", plain, {}, asked),
  [mapHeading]: () => flow("asked").map("node", plain, [], asked),
  "`flow.race(name, jobs, options)`": () => flow("asked").race("node", [plain.with({})], asked),
  "`flow.group(name, jobs, options)`": () => flow("asked").group("node", [plain.with({})], asked),
  "`flow.chain(name, jobs, options)`": () => flow("asked").chain("node", [plain.with({})], asked),
  "`flow.sub(name, flow, options)`": () => flow("asked").sub("node", flow("other"), asked),
  "`mill.flows.list(options)`": () => mill.flows.list(asked),
  "`mill.flows.cancel(id, options)`": () => mill.flows.cancel("asked", asked),
  "`mill.flows.retry(id, options)`": () => mill.flows.retry("asked", asked),
  "`topic(name, options)`": () => topic("asked", asked),
  "`subscription(topic, job, options)`": () => subscription(topic("asked"), plain, asked),
  "`mill.publish(topic, input, options)`": () => mill.publish(topic("asked"), {}, asked),
  "`mill.webhooks.add(name, options)`": () => mill.webhooks.add("asked", asked as WebhookOptions),
  "`verifyWebhook(options)`": () => verifyWebhook(asked as VerifyOptions),
  "`webhooks`": open({ webhooks: asked }),
  "`handler(job, function)` and `batchHandler(job, options, function)`": () =>
    batchHandler(plain, { size: 1, ...asked }, async () => undefined),
  "`mill.work(handlers, options)`": () => mill.work([handler(plain, () => undefined)], asked),
  "`queues.total`": () =>
    mill.work([handler(plain, () => undefined)], { queues: { asked: { total: 1, ...asked } } }),
  "`mill.events(options)`": () => mill.events(asked),
  "`mill.on(kind, listener, options)`": () => mill.on("failed", () => undefined, asked),
  "`fileHandler(job, { file, ... })`": () => fileHandler(plain, { file: "/any.ts", ...asked }),
  "`programHandler(job, { program, ... })`": () => programHandler(plain, { program: ["any"], ...asked }),
  "`recycle`": () => programHandler(plain, { program: ["any"], recycle: asked }),
  "`commandHandler(job, options, plan)`": () => commandHandler(plain, asked, () => ({})),
  "What `plan` gives": async () => {
    await using worked = await Millrace.open("sqlite::memory:", { log: false });
    await worked.work([commandHandler(plain, { allow: ["any"] }, () => asked)]);
    const handle = await worked.enqueue(plain, {}, { retry: { attempts: 1 } });
    const view = await handle.result().catch(() => worked.jobs.get(handle.id));
    throw new Error((view as JobView).failures[0]?.error?.message);
  },
  "`mill.workers.stop(worker, options)`": () => mill.workers.stop("asked", asked),
  "`worker.stop(options)`": async () => {
    const worker = await mill.work([handler(plain, () => undefined)]);
    try {
      await worker.stop(asked);
    } finally {
      await worker.stop();
    }
  },
  "`handle.result(options)`": () => mill.handle("any").result(asked),
  [callHeading]: () => mill.call(plain, {}, asked),
  "`openTelemetry(options)`": () => openTelemetry(asked),
  "`defineConfig(config)`": () => defineConfig(asked),
  "`Millrace.open(url, options)`": open(asked),
  "`sqlite`": open({ sqlite: asked }),
  "`postgres`": open({ postgres: asked }),
  "`redis`": open({ redis: asked }),
  "`bucket`": open({ bucket: asked }),
  "`bucket.prices`": open({ bucket: { prices: asked } }),
  "`defaults`": open({ defaults: asked }),
  "`encryption`": open({ encryption: asked }),
  "`compression`": open({ compression: asked }),
  "`duties`": open({ duties: asked }),
  "One duty": open({ duties: { promote: asked } }),
};

/** The options of each table of the page, by its heading. */
function tables(): Map<string, string[]> {
  const sections = page.split(/^##+ /m).slice(1);
  return new Map(
    sections.map((section) => [
      section.slice(0, section.indexOf("\n")),
      [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name as string),
    ]),
  );
}

async function knownTo(call: () => unknown): Promise<string[]> {
  const message = await (async () => call())().then(
    () => "nothing was refused",
    (error: unknown) => (error as Error).message,
  );
  const [, list] = /unknown option "no-such-option"; known are (.*)\.$/.exec(message) ?? [];
  expect(list, message).toBeDefined();
  return (list as string).split(", ");
}

describe("the page of all options", () => {
  test("has a table for each of the calls that are asked here, and no other", () => {
    expect([...tables().keys()].toSorted()).toEqual(Object.keys(calls).toSorted());
  });

  test.each(Object.keys(calls))("%s has exactly the options that the code knows", async (heading) => {
    const known = await knownTo(calls[heading] as () => unknown);
    const own = tables().get(heading) ?? [];
    // A call takes all options of an enqueue, which its table does not repeat; its timeout is another one. So does a
    // node.
    const ofEnqueue = tables().get(enqueueHeading) ?? [];
    const ofNode = ofEnqueue.filter((name) => !ownKeys.includes(name));
    const isNode = heading === addHeading || heading === mapHeading;
    const others = heading === callHeading ? ofEnqueue : isNode ? ofNode : [];
    expect([...new Set([...own, ...others])].toSorted()).toEqual(known.toSorted());
  });
});

test("the page says which duties the leader does", () => {
  const rows = [...page.matchAll(/^\| `([a-z-]+)` \| .* \| (leader|each process) \| .* \|$/gm)];
  expect(rows.map(([, name]) => name)).toEqual(dutyNames);
  expect(rows.flatMap(([, name, by]) => (by === "leader" ? [name] : []))).toEqual(oncePerStore);
});

test("the deploying guide names exactly the options that millrace work takes, beside the store", () => {
  const guide = readFileSync(new URL("../../docs/guides/deploying.md", import.meta.url), "utf8");
  const [, section = ""] = /^## What `millrace work` takes.*\n([\s\S]*?)^## /m.exec(guide) ?? [];
  const named = new Set([...section.matchAll(/`--([a-z-]+)`/g)].map(([, name]) => name as string));
  const known = Object.keys({ ...storeOptions, ...work.options }).filter((name) => name !== "store");
  expect([...named].toSorted()).toEqual(known.toSorted());
});
