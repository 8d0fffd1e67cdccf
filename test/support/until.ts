/** Waiting for a condition of real servers and processes: the condition, not the pause between two looks, decides. */
import { setTimeout as sleep } from "node:timers/promises";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { hangMs } from "./hang-ms.ts";

const lookMs = 50;

/** @param limitMs only for work that may take longer than `hangMs` without a hang. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  limitMs = hangMs,
): Promise<void> {
  const endUs = nodePlatform.monotonicUs() + limitMs * 1000;
  while (!(await holds())) {
    if (nodePlatform.monotonicUs() > endUs)
      throw new Error(`within ${limitMs} ms it did not come about that ${what}`);
    await sleep(lookMs);
  }
}

/** After trouble the first calls may still meet a connection of before. */
export const answers = (store: Store): Promise<boolean> =>
  store.describe().then(
    () => true,
    () => false,
  );
