/**
 * Seqs as the reference model counts them. A store may leave gaps between seqs (Postgres does, where a unit was refused
 * after it had begun), but the suites compare its answers with a model that counts by one. So the jobs of a store are
 * numbered in the order of their seqs, and both ways between the suite and the store one number stands for the other.
 * For calls that come one after the other.
 */
import type { Store } from "../../src/store/store.ts";

/** `readSeqs` reads the seqs above a number of all jobs that are there. */
export function withCountedSeqs(
  store: Store,
  readSeqs: (above: number) => Promise<readonly number[]>,
): Store {
  const seqs: number[] = [];
  const learn = async (): Promise<void> => {
    const found = await readSeqs(seqs.at(-1) ?? 0);
    seqs.push(...[...found].sort((one, other) => one - other));
  };
  const toStore = (counted: number): number => seqs[counted - 1] ?? 0;
  const toSuite = (seq: number): number => seqs.indexOf(seq) + 1;
  const wrapped = Object.entries(store).map(([name, operation]) => {
    const isCall = typeof operation === "function" && !["watch", "inTransaction", "close"].includes(name);
    if (!isCall) return [name, operation];
    const call = operation as (...given: unknown[]) => Promise<unknown>;
    return [
      name,
      async (...given: unknown[]) => {
        const answer = await call.apply(store, mapSeqs(given, toStore) as unknown[]);
        await learn();
        return mapSeqs(answer, toSuite);
      },
    ];
  });
  return Object.fromEntries(wrapped) as unknown as Store;
}

function mapSeqs(value: unknown, map: (seq: number) => number): unknown {
  if (Array.isArray(value)) return value.map((item) => mapSeqs(item, map));
  if (typeof value !== "object" || value === null) return value;
  const mapped = Object.entries(value).map(([key, item]) => [
    key,
    key === "seq" && typeof item === "number" ? map(item) : mapSeqs(item, map),
  ]);
  return Object.fromEntries(mapped) as unknown;
}
