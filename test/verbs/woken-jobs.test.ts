// A scheduled job is woken, with a payload attached or without.
import { beforeEach, describe, expect, test } from "vitest";
import { handler, job, Snooze } from "../../src/index.ts";
import type { Millrace } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";

const plain = job<number, unknown>("plain");
const closeLater = closeAfterEach();

describe.each(usePlaces())("runNow, on %s", (_title, place) => {
  let mill: Millrace;
  beforeEach(async () => {
    mill = closeLater(millOn(await place()()));
  });

  test("wakes a scheduled job, whose handler finds the attached payload beside its input", async () => {
    const handle = await mill.enqueue(plain, 7, { delay: "1h", headers: { tenant: "a" } });
    const attach = { paid: true, at: new Date(0) };
    expect(await mill.jobs.runNow(handle.id, { attach })).toBe("woken");
    expect(await mill.jobs.get(handle.id)).toMatchObject({ state: "ready", input: 7, attached: attach });
    await mill.work([handler(plain, async ({ input, attached, headers }) => ({ input, attached, headers }))]);
    expect(await handle.result()).toEqual({ input: 7, attached: attach, headers: { tenant: "a" } });
  });

  test("answers not-scheduled for a job that waits for no time, and changes nothing of it", async () => {
    const handle = await mill.enqueue(plain, 1);
    expect(await mill.jobs.runNow(handle.id, { input: 2, attach: 3 })).toBe("not-scheduled");
    expect(await mill.jobs.get(handle.id)).toMatchObject({ state: "ready", input: 1, attached: undefined });
    await mill.jobs.cancel(handle.id);
    expect(await mill.jobs.runNow(handle.id, { attach: 3 })).toBe("not-scheduled");
  });

  test("answers not-found for a job that is not there", async () => {
    expect(await mill.jobs.runNow("nobody", { attach: 1 })).toBe("not-found");
  });

  test("wakes a snoozed job; a later wake without a payload leaves the one before", async () => {
    const seen: unknown[] = [];
    let snoozed = Promise.withResolvers<void>();
    await mill.work([
      handler(plain, async ({ attached }) => {
        seen.push(attached);
        if (seen.length === 4) return "done";
        throw new Snooze("1h");
      }),
    ]);
    mill.on("snoozed", () => snoozed.resolve());
    const handle = await mill.enqueue(plain, 1);
    for (const options of [{ attach: "first" }, {}, { attach: { second: 2n } }]) {
      await snoozed.promise;
      snoozed = Promise.withResolvers();
      expect(await mill.jobs.runNow(handle.id, options)).toBe("woken");
    }
    expect(await handle.result()).toBe("done");
    expect(seen).toEqual([undefined, "first", "first", { second: 2n }]);
  });
});
