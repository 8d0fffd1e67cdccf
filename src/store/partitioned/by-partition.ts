/** Counts by the number of the partition; a store of one partition has none. */
export type ByPartition = Readonly<Record<number, number>>;

/** The sum of both; undefined if both are. */
export function addByPartition(
  left: ByPartition | undefined,
  right: ByPartition | undefined,
): ByPartition | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  const sum: Record<number, number> = { ...left };
  for (const [partition, count] of Object.entries(right))
    sum[Number(partition)] = (sum[Number(partition)] ?? 0) + count;
  return sum;
}
