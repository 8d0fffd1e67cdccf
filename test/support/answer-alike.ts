/** Two stores under the same calls: each call is made on both, and both must answer the same. */
import { expect } from "vitest";
import type { Store } from "../../src/store/store.ts";

type Ask = <Answer>(ask: (asked: Store) => Promise<Answer>) => Promise<Answer>;

/** @returns a function that asks both and answers what the first one did. */
export function answerAlike(store: Store, reference: Store): Ask {
  return async (ask) => {
    const answer = await ask(store);
    expect(answer).toEqual(await ask(reference));
    return answer;
  };
}
