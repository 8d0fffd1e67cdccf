/**
 * Opens the partitions of a store that has several. One that cannot be entered because its server is away or silent, or
 * because a key of it is damaged, keeps nobody from the others: the store opens with those that are there, and it comes
 * in with the first call that succeeds. An error that means a wrong set-up fails the opening.
 *
 * Partition 0 is entered first, and says how many there are. While it cannot, the others say so, and nothing is made.
 */
import { isMillraceError, MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import type { Store } from "../../../store/store.ts";
import { ClusterNodes } from "./cluster-nodes.ts";
import { slotOf } from "./cluster-slot.ts";
import { isDamage, mayHeal } from "./errors.ts";
import { preparePartition, tagOf } from "../partition.ts";
import type { PartitionOptions } from "../partition.ts";
import type { RedisServers } from "./redis-servers.ts";

export interface Several {
  readonly stores: readonly Store[];
  /** How the entry ends of those that are away. */
  readonly late: ReadonlyMap<number, Promise<unknown>>;
}

/** Slots with large hashes move badly, and few of them spread badly over servers. */
export const clusterPartitions = 16;
/** How long partitions are waited for where one has been entered. */
const patienceMs = 5000;

interface Entering {
  readonly number: number;
  readonly store: Store;
  readonly ending: Promise<number>;
  /** Null while nobody knows. */
  end: { readonly error: unknown } | "entered" | null;
}

export async function openSeveral(
  shared: PartitionOptions,
  servers: RedisServers,
  given: number | null,
): Promise<Several> {
  const { platform, prefix } = shared;
  const { seeds, connect, isCluster } = servers;
  const nodes = new ClusterNodes({ platform, seeds, connect, kind: isCluster ? "cluster" : "alone" });
  let listening: ClusterNodes | null = null;
  const connectListener = (): ReturnType<typeof connect> => {
    const kind = isCluster ? "any" : "alone";
    listening ??= new ClusterNodes({ platform, seeds, connect, kind, addresses: () => nodes.addresses });
    return listening.view(null);
  };
  let word = given === null ? `?${isCluster ? clusterPartitions : 1}` : String(given);
  const enter = (number: number): Entering => {
    const client = nodes.view(slotOf(tagOf(prefix, number)));
    const partition = preparePartition(shared, { number, wanted: () => word, client, connectListener });
    const entering: Entering = { number, store: partition.store, ending: partition.enter(), end: null };
    entering.ending.then(
      () => (entering.end = "entered"),
      (error: unknown) => (entering.end = { error }),
    );
    return entering;
  };
  const enterOthers = (count: number): Entering[] =>
    Array.from({ length: count - 1 }, (_, index) => enter(index + 1));

  const first = enter(0);
  const all = [first];
  /** How many there are, as the others say. */
  const askOthers = async (): Promise<number> => {
    word = "!0";
    const others = enterOthers(clusterPartitions);
    const count = await Promise.any(others.map(({ ending }) => ending)).catch(() => null);
    await closeAll(others);
    return count ?? first.ending;
  };

  try {
    await settle(platform, all);
    if (isWrong(first)) await first.ending;
    const count = first.end === "entered" ? await first.ending : (given ?? (await askOthers()));
    word = first.end === "entered" ? String(count) : `!${count}`;
    all.push(...enterOthers(count));
    await settle(platform, all);
    await Promise.any(all.map(({ ending }) => ending)).catch(() => first.ending);
    const wrong = all.find(isWrong);
    if (wrong !== undefined) await wrong.ending.catch((error: unknown) => inPartition(error, wrong, count));
    // The number is known now: a partition that is empty when it is back is made again, as in a running store.
    word = String(count);
  } catch (error) {
    await closeAll(all);
    throw error;
  }
  const isLate = ({ end }: Entering): boolean => end === null || (end !== "entered" && !isDamage(end.error));
  return {
    stores: all.map(({ store }) => store),
    late: new Map(all.filter(isLate).map(({ number, ending }) => [number, ending])),
  };
}

/** Waits until all have been entered or have failed, or the time is over. */
async function settle(platform: Platform, all: readonly Entering[]): Promise<void> {
  const over = Promise.withResolvers<void>();
  const timer = platform.setTimer(patienceMs, () => over.resolve());
  await Promise.race([Promise.allSettled(all.map(({ ending }) => ending)), over.promise]);
  timer.cancel();
}

function isWrong({ end }: Entering): boolean {
  return end !== null && end !== "entered" && !mayHeal(end.error);
}

/** A silent server is not waited for. */
async function closeAll(all: readonly Entering[]): Promise<void> {
  const closings = all.map(({ store, end }) => ({ end, closing: store.close() }));
  await Promise.all(closings.filter(({ end }) => end !== null).map(({ closing }) => closing));
}

/** The same error, saying which of several partitions it is about. */
function inPartition(error: unknown, { number }: Entering, partitions: number): never {
  if (!isMillraceError(error)) throw error;
  const { code, message, outcome, cause } = error;
  const sentence = `Partition ${number} of ${partitions} cannot be opened. ${message}`;
  throw new MillraceError(code, sentence, { outcome, ...(cause === undefined ? {} : { cause }) });
}
