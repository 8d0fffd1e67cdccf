// Metrics from the command line, on a real file: a table, steps, JSON and the text of Prometheus.
import { expect, test } from "vitest";
import { handler, job, Millrace } from "../../src/index.ts";
import { parsePrometheus } from "../support/parse-prometheus.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

test("millrace metrics shows what other processes have counted", async () => {
  const store = aStoreUrl();
  const at = (text: string): string[] => [...text.split(" "), "--store", store];
  const send = job<number>("send", { queue: "mail", retry: { attempts: 1 } });
  {
    await using mill = await Millrace.open(store, { log: false });
    const works = handler(send, ({ input }) => {
      if (input < 0) throw new Error("no");
    });
    await mill.work([works]);
    const handles = await mill.enqueueMany([1, 2, -1].map((n) => send.with(n)));
    await Promise.allSettled(handles.map((handle) => handle.result()));
  }
  const { out } = await say(at("metrics"));
  expect(out).toMatch(/^QUEUE +JOB +ENQUEUED +DONE +RETRIED +FAILED +OTHER +WAIT p50/);
  expect(out).toMatch(/^mail +send +3 +2 +0 +1 +0 +[\d.]+ms/m);
  expect((await say(at("metrics --step 5m --queue mail"))).out).toMatch(/^\d{4}-.* mail +send +3 +2/m);
  expect((await say(at("metrics --queue nobody"))).out).toMatch(/^nothing was counted between /);
  expect(await sayJson(at("metrics --from 30m"))).toMatchObject({
    stepMs: 60_000,
    all: { enqueued: 3, attempts: 3, outcomes: { completed: 2, failed: 1 } },
    series: [{ queue: "mail", name: "send", points: [{ run: { count: 3 } }] }],
  });
  const families = parsePrometheus((await say(at("metrics --prometheus"))).out);
  expect(families.find(({ name }) => name === "millrace_enqueued_total")?.samples).toMatchObject([
    { labels: { queue: "mail", name: "send" }, value: 3 },
  ]);
});

test.each([
  ["metrics --step soon", "invalid-duration"],
  ["metrics --step 10s", "whole minutes"],
  ["metrics --from yesterday", "--from must be a time"],
  ["metrics --prometheus --json", "--prometheus prints everything"],
  ["metrics --prometheus --queue mail", "--prometheus prints everything"],
])("%s is refused", async (text, why) => {
  const store = aStoreUrl();
  await (await Millrace.open(store, { log: false })).close();
  const { code, err, out } = await say([...text.split(" "), "--store", store]);
  expect(code).not.toBe(0);
  expect(err + out).toContain(why);
});
