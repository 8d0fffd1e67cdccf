/**
 * Rule R8 on a blocked holder: it has not started, so it can be replaced, and it stays blocked. No operation
 * of the contract makes a blocked job yet, so each store's test file brings a way to make one behind the store's back.
 */
import { expect, test } from "vitest";
import type { Platform } from "../../src/platform/platform.ts";
import type { Store } from "../../src/store/store.ts";
import { aJob } from "../support/builders.ts";
import { createHeldPlatform, startAt } from "../support/held-platform.ts";

export interface Blockable {
  readonly store: Store;
  /** Makes a waiting job blocked in the store's own rows and indexes, and counts it as such. */
  readonly block: (id: string) => Promise<void>;
}

export function describeBlockedHolder(
  name: string,
  open: (options: { readonly platform: Platform }) => Promise<Blockable>,
): void {
  test(`${name}: a blocked holder of a unique key takes a replacement and stays blocked`, async () => {
    const subject = await open({ platform: createHeldPlatform() });
    const { store } = subject;
    try {
      const keyed = (id: string, inMs: number) =>
        aJob({ id, due: { inMs }, unique: { key: "k", hold: "end", onHeld: "replace" } });
      await store.submit([{ jobs: [keyed("first", 0)] }]);
      await subject.block("first");
      expect(await store.submit([{ jobs: [keyed("second", 50)] }])).toEqual([
        { kind: "ok", ids: ["first"], hows: ["replaced"] },
      ]);
      const [holder] = await store.readJobs(["first"]);
      expect(holder).toMatchObject({
        state: "blocked",
        dueAt: startAt + 50,
        input: '"second"',
      });
      expect(await store.promoteDue({ max: 10 })).toMatchObject({ count: 0 });
      expect(await store.tallyJobs()).toEqual([{ queue: "mail", name: "send", state: "blocked", count: 1 }]);
    } finally {
      await store.close();
    }
  });
}
