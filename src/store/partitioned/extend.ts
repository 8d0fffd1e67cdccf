/**
 * Extending leases over partitions: each partition answers for its own leases. If one fails or is unresponsive, its
 * leases are answered as `unknown`, so that the leases of the others are not lost with it. A look there for jobs of a
 * lost claim is made later.
 */
import type { ExtendAnswer, ExtendRequest } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import type { LostClaims } from "./lost-claims.ts";
import { orLater, presentOnes, reach, throwFirst } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

type Answer = ExtendAnswer["answers"][number];

export async function extendIfLeased(
  { partitions, timeout }: PartitionedCalls,
  lost: LostClaims,
  request: ExtendRequest,
  ofId: (id: string) => number,
): Promise<ExtendAnswer> {
  const { owner, wantsOthers } = request;
  const byPartition = Map.groupBy(request.leases.keys(), (index) =>
    ofId(request.leases[index]?.id as string),
  );
  const looked = wantsOthers ? (lost.whereAnswered(owner) ?? new Set(partitions)) : new Set<Partition>();
  const named = partitions.filter((each) => byPartition.has(each.number) || looked.has(each));
  const candidates = named.length === 0 ? partitions.slice(0, 1) : named;
  const present = presentOnes(candidates);
  const asked = present.length > 0 ? present : candidates;
  const reached = await Promise.all(
    asked.map((partition) => {
      const leases = (byPartition.get(partition.number) ?? []).map(
        (index) => request.leases[index] as ExtendRequest["leases"][number],
      );
      // The jobs of claims that are open or late come with this look, also in a partition that is asked for its leases.
      if (wantsOthers) lost.looksIn(owner, partition);
      const call = { ...request, leases };
      return reach(partition, {
        name: "extendIfLeased",
        call: (store) => store.extendIfLeased(call),
        timeout: timeout.short,
      });
    }),
  );
  const ends = await orLater(reached);
  const answers: Answer[] = request.leases.map(() => "unknown");
  const others: LeasedJob[] = [];
  const grown: string[] = [];
  let now = 0;
  for (const [position, partition] of asked.entries()) {
    const end = ends[position];
    if (end?.kind !== "answered") {
      if (wantsOthers) lost.isLost(owner, partition);
      continue;
    }
    for (const [own, index] of (byPartition.get(partition.number) ?? []).entries())
      answers[index] = end.answer.answers[own] as Answer;
    others.push(...end.answer.others);
    grown.push(...(end.answer.grown ?? []));
    now = Math.max(now, end.answer.now);
  }
  for (const partition of looked) if (!asked.includes(partition)) lost.isLost(owner, partition);
  // A look that could not be made is made later and does not fail the call: another partition answers the time.
  if (now === 0 && wantsOthers)
    now = await readTime(
      partitions.filter((each) => !asked.includes(each)),
      owner,
      timeout,
    );
  if (now === 0) throwFirst(ends);
  others.sort((one, other) => one.seq - other.seq);
  return { answers, others, now, ...(grown.length === 0 ? {} : { grown }) };
}

async function readTime(
  others: readonly Partition[],
  owner: string,
  timeout: PartitionedCalls["timeout"],
): Promise<number> {
  for (const partition of presentOnes(others)) {
    const reached = await reach(partition, {
      name: "extendIfLeased",
      call: (store) => store.extendIfLeased({ owner, leaseMs: 0, leases: [], wantsOthers: false }),
      timeout: timeout.short,
    });
    if (reached.kind === "answered") return reached.answer.now;
  }
  return 0;
}
