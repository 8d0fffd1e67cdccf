/**
 * One partition, a store of its own, with its cache and its health; and calls to a partition that cannot hold up the
 * others. A failure is recorded in its health and returned to the caller. A partition that does not answer in time is
 * not waited for; its late answer still counts.
 */
import { isMillraceError } from "../../model/error.ts";
import type { Store } from "../store.ts";
import type { Health } from "./health.ts";
import type { PartitionCache } from "./partition-cache.ts";
import type { CallTimeout } from "./call-timeout.ts";

export interface Partition {
  readonly number: number;
  readonly store: Store;
  readonly cache: PartitionCache;
  readonly health: Health;
}

export interface PartitionedCalls {
  readonly partitions: readonly Partition[];
  /** A clock of this process, in milliseconds, that never goes back. */
  readonly nowMs: () => number;
  /** For operations that are short in a healthy store, and for those that may read much. */
  readonly timeout: { readonly short: CallTimeout; readonly long: CallTimeout };
  /** Whether hints of all partitions come in. While they do not, no cache is trusted. */
  isWatched(): boolean;
}

export type Reached<Answer> =
  | { readonly kind: "answered"; readonly answer: Answer }
  | { readonly kind: "failed"; readonly error: unknown }
  /** Not answered in time; `later` is how it ends, and never rejects. */
  | { readonly kind: "silent"; readonly later: Promise<Reached<Answer>> };

export interface Ask<Answer> {
  /** The operation, by the name that the contract gives it. */
  readonly name: string;
  readonly call: (store: Store) => Promise<Answer>;
  readonly timeout: CallTimeout;
}

export async function reach<Answer>(
  partition: Partition,
  { name, call, timeout }: Ask<Answer>,
): Promise<Reached<Answer>> {
  const { health, store } = partition;
  const ending = call(store).then(
    (answer): Reached<Answer> => {
      health.answered(name);
      return { kind: "answered", answer };
    },
    (error: unknown): Reached<Answer> => {
      health.failed(name, error);
      return { kind: "failed", error };
    },
  );
  if (await timeout.isAnswered(ending)) return ending;
  health.awaits(ending);
  health.fellSilent();
  return { kind: "silent", later: ending };
}

/**
 * The partitions that are not away. One that is away is probed in the background after its delay, so that a later call
 * finds it present.
 */
export function presentOnes(partitions: readonly Partition[]): Partition[] {
  for (const partition of partitions) if (partition.health.isProbeDue) probe(partition);
  return partitions.filter(({ health }) => !health.isAway);
}

function probe({ store, health }: Partition): void {
  const probing = store.describe();
  health.probes(probing);
  probing.then(
    () => health.answered("describe"),
    (error: unknown) => health.failed("describe", error),
  );
}

/**
 * Asks partitions at once, without those that are away, and does not wait for an unresponsive one after another has
 * answered. If no partition answers, the first error is thrown.
 */
export async function askAll<Answer>(
  calls: PartitionedCalls,
  name: string,
  call: (store: Store, partition: Partition) => Promise<Answer>,
  among: readonly Partition[] = calls.partitions,
): Promise<readonly { readonly partition: Partition; readonly answer: Answer }[]> {
  const present = presentOnes(among);
  const asked = present.length > 0 ? present : among;
  const timeout = calls.timeout.long;
  const reached = await Promise.all(
    asked.map((partition) => reach(partition, { name, call: (store) => call(store, partition), timeout })),
  );
  const ends = await orLater(reached);
  const answers = ends.flatMap((each, index) =>
    each.kind === "answered" ? [{ partition: asked[index] as Partition, answer: each.answer }] : [],
  );
  if (answers.length === 0) throwFirst(ends);
  return answers;
}

/** If none has answered, waits for the first late answer, or until all have failed. */
export async function orLater<Answer>(
  reached: readonly Reached<Answer>[],
): Promise<readonly Reached<Answer>[]> {
  const ends = [...reached];
  while (!ends.some(({ kind }) => kind === "answered")) {
    const open = ends.flatMap((each, index) =>
      each.kind === "silent" ? [each.later.then((end) => void (ends[index] = end))] : [],
    );
    if (open.length === 0) break;
    await Promise.race(open);
  }
  return ends;
}

export function throwFirst(reached: readonly Reached<unknown>[]): void {
  for (const each of reached) if (each.kind === "failed") throw each.error;
}

/** Whether the error says that nothing of the call happened, and it may succeed later. */
export function isAway(error: unknown): boolean {
  return isMillraceError(error) && error.retryable && error.outcome !== "unknown";
}
