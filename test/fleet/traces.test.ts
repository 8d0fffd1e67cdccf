/**
 * One trace through real processes on each store: a request in this one, its job in a second, the follow-up of that in
 * a third; and a span of the third one's own below its attempt.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { Millrace } from "../../src/index.ts";
import { openTelemetry } from "../../src/opentelemetry/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { recordTelemetry, useOpenTelemetry } from "../support/virtual/recorded-telemetry.ts";
import { killAfterEach, startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { lineOf, order } from "./traced-process.ts";
import type { TracedLine } from "./traced-process.ts";

useOpenTelemetry();
const script = fileURLToPath(new URL("traced-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-traces-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();

const urls: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, "jobs.db")}`],
  ["Postgres", () => `${database.url}?schema=traces`],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`],
];

function startProcess(role: "orders" | "shipping", url: string) {
  const lines: TracedLine[] = [];
  const { kill } = startScript(script, [role, url], (line) => lines.push(JSON.parse(line) as TracedLine));
  return { lines, kill };
}

describe.each(urls)("on %s", (_store, place) => {
  const closeLater = closeAfterEach();
  const start = killAfterEach(startProcess);

  test("a request, its job and the job's follow-up in three processes are one trace", async () => {
    const url = place();
    const { tracerProvider, spans } = recordTelemetry();
    const mill = closeLater(
      await Millrace.open(url, { log: false, telemetry: openTelemetry({ tracerProvider }) }),
    );
    const [orders, shipping] = (["orders", "shipping"] as const).map((role) => start(role, url));
    await tracerProvider.getTracer("app").startActiveSpan("request", async (span) => {
      await mill.enqueue(order, 1);
      span.end();
    });
    const all = (): TracedLine[] => [...spans.map(lineOf), ...orders!.lines, ...shipping!.lines];
    /** From the last span to its root, of which some may not have ended. An attempt may have been made twice. */
    const chain = (): readonly TracedLine[] => {
      const found: TracedLine[] = [];
      const bySpan = new Map(all().map((line) => [line.spanId, line]));
      let next = all().find(({ name }) => name === "label");
      for (; next !== undefined; next = bySpan.get(next.parentId ?? "")) found.unshift(next);
      return found;
    };
    await until("all spans have ended", () => chain()[0]?.parentId === null);
    expect(chain().map(({ name }) => name)).toEqual([
      "request",
      "enqueue orders",
      "process orders",
      "create shipping",
      "process shipping",
      "label",
    ]);
    expect(new Set(all().map(({ traceId }) => traceId)).size).toBe(1);
  });
});
