import { expect, test } from "vitest";
import { createVirtualPlatform } from "../testing/virtual-platform.ts";
import { Backoff } from "./backoff.ts";

const lengths = { firstMs: 100, maxMs: 1000 };

test("waits double from the first length to the maximum, each drawn between half of it and all, until a success", () => {
  const backoff = new Backoff(createVirtualPlatform(), lengths);
  const expectWaits = (...lengthsMs: number[]): void => {
    for (const lengthMs of lengthsMs) {
      const waitMs = backoff.failed();
      expect(waitMs).toBeGreaterThanOrEqual(lengthMs / 2);
      expect(waitMs).toBeLessThanOrEqual(lengthMs);
    }
  };
  expectWaits(100, 200, 400, 800, 1000, 1000);
  backoff.succeeded();
  expectWaits(100, 200);
});

test("a wait stays at its maximum however often a try has failed", () => {
  const backoff = new Backoff(createVirtualPlatform(), lengths);
  for (let failure = 0; failure < 5000; failure++) backoff.failed();
  expect(backoff.failed()).toBeLessThanOrEqual(1000);
});

test("the next try is made once, after its wait", async () => {
  const platform = createVirtualPlatform();
  const backoff = new Backoff(platform, lengths);
  const triedAtMs: number[] = [];
  const waitMs = backoff.retry(() => triedAtMs.push(platform.time.elapsedUs / 1000));
  expect(backoff.isWaiting).toBe(true);
  await platform.time.advance(10_000_000);
  expect(triedAtMs).toHaveLength(1);
  expect(triedAtMs[0]).toBeGreaterThanOrEqual(Math.floor(waitMs));
  expect(backoff.isWaiting).toBe(false);
});

test("a try that is called off is never made and leaves no timer", async () => {
  const platform = createVirtualPlatform();
  const backoff = new Backoff(platform, lengths);
  let tries = 0;
  backoff.retry(() => (tries += 1));
  backoff.cancel();
  expect(backoff.isWaiting).toBe(false);
  expect(platform.time.pending).toBe(0);
  await platform.time.advance(10_000_000);
  expect(tries).toBe(0);
});
