/** Claims of large inputs, on the reference model, which honours the bound. */
import { expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { openReference } from "../../../test/support/stores/reference-as-store.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";

test("a claim brings no more bytes than a process can hold, and what it left is claimed at once", async () => {
  const platform = createVirtualPlatform();
  const store = openReference(platform, 1);
  const claim = store.claim.bind(store);
  const claimed: number[] = [];
  store.claim = async (request) => {
    const answer = await claim(request);
    if (answer.jobs.length > 0)
      claimed.push(answer.jobs.reduce((sum, { input }) => sum + Buffer.byteLength(input), 0));
    return answer;
  };
  const mill = millOn(store, {}, platform);
  const large = job<string>("large", { queue: "a" });
  const beside = job<string>("beside", { queue: "b" });
  const input = "x".repeat(1_000_000);
  for (let n = 0; n < 10; n++) {
    await runUntil(platform, mill.enqueue(large, input));
    await runUntil(platform, mill.enqueue(beside, input));
  }
  let ran = 0;
  const count = async (): Promise<void> => void ran++;
  await runUntil(
    platform,
    mill.work([handler(large, count), handler(beside, count)], { queues: { a: 20, b: 20 } }),
  );
  await platform.time.advance(100_000);
  expect(ran).toBe(20);
  expect(Math.max(...claimed)).toBeLessThan(storeLimits.claimInputBytesMax + 2_000_000);
  await runUntil(platform, mill.close());
});
