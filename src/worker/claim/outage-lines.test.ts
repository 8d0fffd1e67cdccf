// What a worker says while its store is away: each trouble once and then counted, not at every try.
import { expect, test } from "vitest";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { silentLogger } from "../../engine/log/logger.ts";
import { MillraceError } from "../../model/error.ts";
import { handler } from "../handler.ts";

test("an outage of 50 s is one line per trouble, and its end says how often it came", async () => {
  const lines: { level: string; message: string; times: unknown }[] = [];
  const write = (level: string) => (message: string, fields?: Readonly<Record<string, unknown>>) =>
    void lines.push({ level, message, times: fields?.["times"] });
  const log = { ...silentLogger, info: write("info"), warn: write("warn"), error: write("error") };
  const v = await openVirtualMill({ log });
  await v.run(v.mill.work([handler(job("plain"), () => 1)]));
  await v.advance(1000);
  lines.length = 0;
  const { store } = v;
  const before = {
    claim: store.claim.bind(store),
    promoteDue: store.promoteDue.bind(store),
    heartbeat: store.heartbeat.bind(store),
  };
  const away = (): Promise<never> => Promise.reject(new MillraceError("store-unavailable", "away"));
  Object.assign(store, { claim: away, promoteDue: away, heartbeat: away });
  await v.advance(50_000);
  expect(lines.map(({ level, message, times }) => [level, message, times])).toEqual([
    ["warn", expect.stringMatching(/^(claiming|duty promote) failed/), undefined],
    ["warn", expect.stringMatching(/^(claiming|duty promote) failed/), undefined],
  ]);
  lines.length = 0;
  Object.assign(store, before);
  await v.advance(60_000);
  expect(lines.map(({ level, message }) => `${level} ${message}`).toSorted()).toEqual([
    "info over: claiming failed, trying again",
    "info over: duty promote failed and starts again",
  ]);
  for (const { times } of lines) expect(times).toBeGreaterThan(1);
  await v.close();
});
