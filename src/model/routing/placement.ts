/**
 * Placement: which partition of a store a job, a unique key or a document belongs to. A minted id carries its
 * partition; an id that a caller gave, a key and a document's name choose theirs by hash. A unit is written in one
 * step, so it must lie in one partition; otherwise it is refused before any write.
 *
 * A gate decides where everything that it holds is known. So jobs with gates on their route lie in one partition,
 * whatever their ids. The name of a key chooses its partition: jobs that take from the key, and jobs of a group with a
 * cap, lie there. If the limit is also on the job's route, its keys lie with it. A group that only takes turns chooses
 * by its key if nothing else decides. The gates of queues and budgets are in every partition, so they place nothing.
 *
 * A flow lies in one partition with all its members: ids of jobs and names of documents that begin with a minted id and
 * a dot lie with that id.
 *
 * If a name has text in braces, only that text counts, so that users can choose what lies together: the id
 * "order-{17}", the unique key "pay-{17}" and the KV key "total-{17}" lie in one partition.
 *
 * These rules are part of the stored data: a change would lose jobs in existing stores.
 */
import { MillraceError } from "../error.ts";
import { gateName, isBudgetGate } from "../limits/gate.ts";
import { mintedPartition } from "../job/job-id.ts";
import { gateOfLimit, groupOfLane, isGroupGate, keyOfGate, readKeyUse } from "./lane.ts";

export const partitionsMax = 1024;

export interface Placement {
  readonly partitions: number;
  ofId(id: string): number;
  /** The partition of a unique key or a document. */
  ofName(name: string): number;
  /** The partition of the gates that jobs name, and of these jobs. */
  readonly ofGates: number;
}

/** What placement needs to know of a unit. */
export interface Unit {
  readonly jobs?: readonly UnitJob[] | undefined;
  readonly docs?: readonly UnitDoc[] | undefined;
  readonly checks?: readonly { readonly id: string }[] | undefined;
}

export interface UnitDoc {
  readonly id: string;
  readonly add?: { readonly leaves?: { readonly id: string } } | undefined;
}

export interface UnitJob {
  readonly id: string;
  /** Null for a minted id. */
  readonly digest: string | null;
  readonly unique: { readonly key: string } | null;
  readonly gates?: readonly { readonly key: string }[];
  readonly laneKey?: string | null;
  readonly laneGates?: readonly string[] | null;
}

export function createPlacement(partitions: number): Placement {
  return {
    partitions,
    ofId: (id) => (partitionInId(id) ?? hashName(id)) % partitions,
    ofName: (name) => (partitionInId(name) ?? hashName(name)) % partitions,
    ofGates: 0,
  };
}

/** The partition of the unit; null for an empty unit. */
export function partitionOfUnit(placement: Placement, unit: Unit, home: number | null = null): number | null {
  return onePartition(placement, unit, home, true);
}

/** The partition that a part of the unit asks for, apart from minted ids; null if none does. */
export function askedPartition(placement: Placement, unit: Unit): number | null {
  return onePartition(placement, unit, null, false);
}

/** Whether all names with this prefix lie in one partition, because it has text in braces. */
export function isPlacedByPrefix(prefix: string): boolean {
  return countedPart(prefix) !== prefix;
}

/** A text that belongs to this partition: in braces before a name, it places the name there. */
export function textIn(placement: Placement, partition: number): string {
  for (let number = 0; ; number++) if (placement.ofName(String(number)) === partition) return String(number);
}

/**
 * The jobs of a unit, with minted ids that lie in one partition: the one that a given id, a key or a document asks for,
 * else that of the first job. Only before the first call: afterwards the ids must not change, because they make a
 * repeat safe.
 */
export function gatherJobs<Job extends UnitJob>(
  placement: Placement,
  unit: Unit & { readonly jobs: readonly Job[] },
  mint: (partition: number) => string,
  home: number | null = null,
): readonly Job[] {
  const jobs: readonly Job[] = unit.jobs;
  const asked = onePartition(placement, unit, home, false);
  const [first] = jobs;
  if (first === undefined) return jobs;
  const partition = asked ?? byGroup(placement, first) ?? placement.ofId(first.id);
  return jobs.map((job) =>
    job.digest !== null || placement.ofId(job.id) === partition ? job : { ...job, id: mint(partition) },
  );
}

/** The partition of a group that only takes turns. */
function byGroup(placement: Placement, { laneKey }: UnitJob): number | null {
  const group = groupOfLane(laneKey);
  return group === null ? null : placement.ofName(group);
}

function onePartition(
  placement: Placement,
  { jobs = [], docs = [], checks = [] }: Unit,
  home: number | null,
  areIdsFixed: boolean,
): number | null {
  let partition = home;
  let by = "the job itself";
  const want = (wanted: number, what: string, name: string): void => {
    if (partition === null) {
      partition = wanted;
      by = `${what} ${JSON.stringify(name)}`;
    } else if (partition !== wanted) {
      throw new MillraceError(
        "placement-conflict",
        `The ${what} ${JSON.stringify(name)} and ${by} lie in different partitions of this store, so they cannot be decided in one step. Write them apart, or give both names the same text in braces. A limit lies in one partition; one that bounds keys only lies with its keys.`,
      );
    }
  };
  for (const { id, digest, unique, gates = [], laneGates } of jobs) {
    const gate = gates.find(({ key }) => !isBudgetGate(key));
    if (gate !== undefined) want(placement.ofGates, "limit", gateName(gate.key));
    for (const use of laneGates ?? []) {
      const { key } = readKeyUse(use);
      if (isBudgetGate(key)) continue;
      if (gates.some((other) => other.key === gateOfLimit(key))) continue;
      want(placement.ofName(keyOfGate(key)), isGroupGate(key) ? "group" : "key", keyOfGate(key));
    }
    if (areIdsFixed || digest !== null) want(placement.ofId(id), "id", id);
    if (unique !== null) want(placement.ofName(unique.key), "unique key", unique.key);
  }
  for (const { id, add } of docs) {
    want(placement.ofName(id), "document", id);
    if (add?.leaves !== undefined) want(placement.ofName(add.leaves.id), "document", add.leaves.id);
  }
  for (const { id } of checks) want(placement.ofName(id), "document", id);
  return partition;
}

/**
 * The partition of a minted id, also at the beginning of a longer name: members of a flow and their deferred work lie
 * with the flow, whose id begins theirs.
 */
function partitionInId(name: string): number | null {
  const dot = name.indexOf(".");
  return mintedPartition(dot < 0 ? name : name.slice(0, dot));
}

/** The text between the first brace and the next closing one, if there is any. */
function countedPart(name: string): string {
  const from = name.indexOf("{");
  if (from < 0) return name;
  const to = name.indexOf("}", from + 1);
  return to <= from + 1 ? name : name.slice(from + 1, to);
}

/** FNV-1a over the UTF-16 code units, with a final mix: equal on every machine, and even over few partitions. */
function hashName(name: string): number {
  const counted = countedPart(name);
  let hash = 0x811c9dc5;
  for (let at = 0; at < counted.length; at++) {
    const unit = counted.charCodeAt(at);
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
