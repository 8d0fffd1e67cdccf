import { expect, test } from "vitest";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { Platform } from "../../../platform/platform.ts";
import { MemoryBucket } from "./memory.ts";
import { ObjectsError } from "./objects.ts";
import type { Objects } from "./objects.ts";
import { retrying } from "./retrying.ts";

/** Timers fire at once and move the clock. */
function quickPlatform(): { platform: Platform; delays: number[] } {
  let nowUs = 0;
  const delays: number[] = [];
  const setTimer: Platform["setTimer"] = (delayMs, run) => {
    delays.push(delayMs);
    nowUs += delayMs * 1000;
    queueMicrotask(run);
    return { cancel: () => undefined };
  };
  return { platform: { ...nodePlatform, monotonicUs: () => nowUs, random: () => 1, setTimer }, delays };
}

/** The next calls fail with these errors, before or after their effect. */
function failing(objects: Objects, errors: ObjectsError[], effect: "before" | "after" = "before"): Objects {
  const trouble = async <T>(verb: () => Promise<T>): Promise<T> => {
    const error = errors.shift();
    if (error !== undefined && effect === "before") throw error;
    const answer = await verb();
    if (error !== undefined) throw error;
    return answer;
  };
  return {
    put: (...given) => trouble(() => objects.put(...given)),
    get: (...given) => trouble(() => objects.get(...given)),
    list: (...given) => trouble(() => objects.list(...given)),
    remove: (...given) => trouble(() => objects.remove(...given)),
    close: () => objects.close(),
  };
}

const bytes = new Uint8Array([1, 2]);
const busy = (retryAfterMs: number | null = null) => new ObjectsError("busy", "busy", { retryAfterMs });
const lost = () => new ObjectsError("unreachable", "lost", { outcome: "unknown" });

test("each wait is longer than the one before, and the twelfth failure is answered", async () => {
  const { platform, delays } = quickPlatform();
  const errors = Array.from({ length: 40 }, () => busy());
  const objects = retrying(failing(new MemoryBucket().open(), errors), platform);
  await expect(objects.get("a")).rejects.toMatchObject({ kind: "busy" });
  expect(delays).toEqual([50, 100, 200, 400, 800, 1600, 2000, 2000, 2000, 2000, 2000]);
});

test("a service is not asked sooner than it wants, and given up at once if it wants too long", async () => {
  const { platform, delays } = quickPlatform();
  const objects = retrying(failing(new MemoryBucket().open(), [busy(3000), busy(60_000)]), platform);
  await expect(objects.list("", null)).rejects.toMatchObject({ kind: "busy", retryAfterMs: 60_000 });
  expect(delays).toEqual([3000]);
});

test.each(["denied", "no-bucket", "refused"] as const)(
  "what does not pass is answered at once: %s",
  async (kind) => {
    const { platform, delays } = quickPlatform();
    const objects = retrying(failing(new MemoryBucket().open(), [new ObjectsError(kind, kind)]), platform);
    await expect(objects.remove(["a"])).rejects.toMatchObject({ kind });
    expect(delays).toEqual([]);
  },
);

test("a put-if-absent whose reply was lost is answered as stored if its own bytes are there", async () => {
  const bucket = new MemoryBucket();
  const { platform } = quickPlatform();
  const objects = retrying(failing(bucket.open(), [lost()], "after"), platform);
  expect(await objects.put("a", bytes, true)).toBe("stored");
  expect(await objects.put("a", bytes, true)).toBe("exists");
});

test("and as existing if somebody else was first, or if it was removed since", async () => {
  const bucket = new MemoryBucket();
  const { platform } = quickPlatform();
  await bucket.open().put("a", new Uint8Array([9]), true);
  expect(await retrying(failing(bucket.open(), [lost()]), platform).put("a", bytes, true)).toBe("exists");
  const gone: Objects = { ...failing(bucket.open(), [lost()]), get: async () => null };
  expect(await retrying(gone, platform).put("a", bytes, true)).toBe("exists");
});

test("a put that fails for good after its outcome was open stays open", async () => {
  const { platform } = quickPlatform();
  const errors = [lost(), new ObjectsError("denied", "expired")];
  const objects = retrying(failing(new MemoryBucket().open(), errors, "after"), platform);
  await expect(objects.put("a", bytes, true)).rejects.toMatchObject({ kind: "denied", outcome: "unknown" });
});

test("after the close nothing is tried again", async () => {
  const { platform, delays } = quickPlatform();
  const errors = Array.from({ length: 40 }, () => busy());
  const objects = retrying(failing(new MemoryBucket().open(), errors), platform);
  const get = objects.get("a");
  await objects.close();
  await expect(get).rejects.toMatchObject({ name: "ObjectsError" });
  expect(delays.length).toBeLessThan(2);
});
