import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { aClaim, aJob, aSettle, schedule } from "../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../test/support/virtual/held-platform.ts";
import { readAllDue } from "../../../test/support/walk.ts";
import { openSqliteStore } from "./sqlite-store.ts";
import { openStoreClock } from "../../store/store-clock.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-clock-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const nextPath = (): string => join(folder, `${files++}.db`);
const hourMs = 3_600_000;

describe("a machine's clock that was an hour ahead for one call", () => {
  it.each(["inline", "thread"] as const)(
    "freezes neither delays, nor retries, nor the ends of leases (%s)",
    async (executor) => {
      const platform = createHeldPlatform();
      const startAt = platform.now();
      const store = await openSqliteStore({ path: nextPath(), platform, executor });
      await store.submit([{ jobs: [aJob({ id: "leased" }), aJob({ id: "retried" })] }]);
      platform.setNow(startAt + hourMs);
      const { jobs } = await store.claim(aClaim({ leaseMs: 500 }));
      platform.setNow(startAt);
      const [, retried] = jobs;
      await store.settleIfLeased([aSettle(retried!, schedule(300))]);
      await store.submit([{ jobs: [aJob({ id: "delayed", due: { inMs: 400 } })] }]);
      expect(await store.describe()).toMatchObject({ now: startAt + hourMs, aheadMs: hourMs });

      platform.advance(300);
      expect(await store.promoteDue({ max: 9 })).toMatchObject({ count: 1, nextDueInMs: 100 });
      platform.advance(100);
      expect(await store.promoteDue({ max: 9 })).toMatchObject({ count: 1 });
      platform.advance(100);
      expect(await readAllDue(store, "lease")).toMatchObject([{ id: "leased", lateMs: 0 }]);
      expect(await store.describe()).toMatchObject({ now: startAt + hourMs + 500, aheadMs: hourMs });
      await store.close();
    },
  );

  it("is followed by every process that has the file open, and by one that opens it later", async () => {
    const path = nextPath();
    const platform = createHeldPlatform();
    const startAt = platform.now();
    const one = await openSqliteStore({ path, platform });
    const other = await openSqliteStore({ path, platform });
    platform.setNow(startAt + hourMs);
    await one.submit([{ jobs: [aJob({ id: "a", due: { inMs: 400 } })] }]);
    platform.setNow(startAt);
    expect(await other.describe()).toMatchObject({ now: startAt + hourMs });
    platform.advance(400);
    expect(await other.promoteDue({ max: 9 })).toMatchObject({ count: 1 });
    await other.submit([{ jobs: [aJob({ id: "b", due: { inMs: 400 } })] }]);
    await one.close();
    await other.close();

    platform.advance(60_000);
    const later = await openSqliteStore({ path, platform });
    expect(await later.describe()).toMatchObject({
      now: startAt + hourMs + 400,
      aheadMs: hourMs - 60_000,
    });
    platform.advance(400);
    expect(await later.promoteDue({ max: 9 })).toMatchObject({ count: 1 });
    platform.advance(2 * hourMs);
    expect((await later.describe()).aheadMs).toBe(hourMs - 60_000);
    await later.close();
  });
});

describe("the clock of a store", () => {
  it("waits a small step back out, however many there are", () => {
    const platform = createHeldPlatform();
    const clock = openStoreClock(platform);
    for (let step = 0; step < 100; step++) {
      const now = clock.now();
      platform.advance(-900);
      clock.observe(now);
      platform.advance(900);
    }
    expect(clock.aheadMs()).toBe(0);
  });

  it("is not carried away by calls that waited long for the lock of others", () => {
    const platform = createHeldPlatform();
    const [one, other] = [openStoreClock(platform), openStoreClock(platform)];
    for (let step = 0; step < 100; step++) {
      const asked = one.now();
      platform.advance(30_000);
      const emitted = other.now();
      other.observe(emitted);
      one.observe(Math.max(asked, emitted));
    }
    expect([one.aheadMs(), other.aheadMs()]).toEqual([0, 0]);
  });
});
