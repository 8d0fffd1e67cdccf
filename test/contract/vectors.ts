/**
 * The shared vectors of the store contract's rules: files of plain JSON (vectors/*.json), each a list of scripts of
 * calls with the time of the call and the answer that the reference model gave. A store in any language can run them.
 * Written anew from vector-scripts.ts by `npx vitest run test/contract/vectors.test.ts -u`.
 *
 * Fences are written without the store's epoch; cursors and numbers of rows looked at are left out.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Platform } from "../../src/platform/platform.ts";
import type { FeedAnswer, FindAnswer, ReadDueAnswer } from "../../src/store/operations.ts";
import type { PruneAnswer } from "../../src/store/upkeep.ts";
import type { StateCount } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { createHeldPlatform, startAt } from "../support/virtual/held-platform.ts";
import type { HeldPlatform } from "../support/virtual/held-platform.ts";
import { sortEvents, sortStateCounts } from "../support/walk.ts";
import { ruleNames } from "./vector-scripts.ts";
import type { Operation, Script } from "./vector-calls.ts";

interface Step {
  readonly at: number;
  readonly op: Operation;
  readonly request: unknown;
  readonly answer: unknown;
}

interface Vector {
  readonly title: string;
  readonly steps: readonly Step[];
}

/** What every vector looks at in the end. */
const closing = [
  ["findJobs", { filter: {}, max: 100, scanMax: 1000, cursor: null }],
  ["countJobs", null],
  ["readFeed", { after: 0, max: 100 }],
] as const;

export async function answerScript(
  store: Store,
  platform: HeldPlatform,
  [title, ...calls]: Script,
): Promise<Vector> {
  const steps: Step[] = [];
  const { epoch } = await store.describe();
  const call = async (at: number, op: Operation, request: unknown): Promise<void> => {
    platform.setNow(at);
    steps.push({ at, op, request, answer: await ask(store, epoch, op, request) });
  };
  for (const [afterMs, op, request] of calls) await call(startAt + afterMs, op, request);
  for (const [op, request] of closing) await call(platform.now(), op, request);
  return { title, steps };
}

export function writeVectors(rule: string, vectors: readonly Vector[]): string {
  const lines = vectors.map(({ title, steps }) => {
    const written = steps.map((step) => `      ${JSON.stringify(step)}`).join(",\n");
    return `  {\n    "title": ${JSON.stringify(title)},\n    "steps": [\n${written}\n    ]\n  }`;
  });
  return `{"rule": ${JSON.stringify(rule)}, "vectors": [\n${lines.join(",\n")}\n]}\n`;
}

function readVectors(rule: string): readonly Vector[] {
  const text = readFileSync(new URL(`./vectors/${rule}.json`, import.meta.url), "utf8");
  return (JSON.parse(text) as { vectors: readonly Vector[] }).vectors;
}

export function describeVectors(open: (options: { readonly platform: Platform }) => Promise<Store>): void {
  for (const rule of ruleNames) {
    describe(`rule ${rule}`, () => {
      for (const { title, steps } of readVectors(rule)) {
        test(`${title}`, async () => {
          const platform = createHeldPlatform();
          const store = await open({ platform });
          try {
            const { epoch } = await store.describe();
            for (const [index, { at, op, request, answer }] of steps.entries()) {
              platform.setNow(at);
              expect(await ask(store, epoch, op, request), `step ${index + 1}: ${op}`).toEqual(answer);
            }
          } finally {
            await store.close();
          }
        });
      }
    });
  }
}

async function ask(store: Store, epoch: number, op: Operation, request: unknown): Promise<unknown> {
  const base = epoch * 2 ** 32;
  const operation = store[op] as (request: unknown) => Promise<unknown>;
  const answer = await operation.call(store, shiftFences(request, base));
  return shiftFences(JSON.parse(JSON.stringify(comparable(op, answer))), -base);
}

function comparable(op: Operation, answer: unknown): unknown {
  if (op === "countJobs") return sortStateCounts(answer as readonly StateCount[]);
  if (op === "readFeed")
    return { ...(answer as FeedAnswer), records: (answer as FeedAnswer).records.map(sortEvents) };
  if (op === "findJobs") return { jobs: (answer as FindAnswer).jobs };
  if (op === "prune") return { pruned: (answer as PruneAnswer).pruned };
  if (op !== "readDue") return answer;
  const { cursor: _cursor, ...rest } = answer as ReadDueAnswer;
  return rest;
}

function shiftFences(value: unknown, by: number): unknown {
  if (Array.isArray(value)) return value.map((item) => shiftFences(item, by));
  if (typeof value !== "object" || value === null) return value;
  const shifted = Object.entries(value).map(([key, item]) => {
    const isFence = key === "fence" && typeof item === "number" && item > 0;
    return [key, isFence ? item + by : shiftFences(item, by)];
  });
  return Object.fromEntries(shifted) as unknown;
}
