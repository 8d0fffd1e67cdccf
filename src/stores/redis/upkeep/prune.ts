/** Retention (prune.lua.ts). */
import { stateCodes } from "../../../model/job/job-state.ts";
import type { Operation } from "../connection/call.ts";
import { packText } from "../packing/value-text.ts";

export const prune: Operation<"prune"> = async ({ connection }, request) => {
  const max = String(request.max);
  if (request.what === "surplus") {
    const { outcome, queue, keep, cursor } = request;
    const args = [String(stateCodes[outcome]), packText(queue), String(keep), max];
    const answer = await connection.write("mr1_prune_surplus", [...args, ...positionOf(cursor)]);
    const [pruned, more, minute, left] = answer as [number, number, string, string];
    return { pruned, more: more === 1, cursor: minute === "" ? null : `${minute}:${left}` };
  }
  if (request.what !== "history") {
    const args = request.what === "feed" ? [max, String(request.olderThanMs)] : [max];
    const [pruned, more] = (await connection.write(`mr1_prune_${request.what}`, args)) as [number, number];
    return { pruned, more: more === 1, cursor: null };
  }
  const { outcome, queue, exceptQueues, olderThanMs, cursor } = request;
  const [pruned, nextMinute, nextLeft] = (await connection.write("mr1_prune_history", [
    String(stateCodes[outcome]),
    ...(queue === null ? ["1", ""] : ["0", packText(queue)]),
    ...[String(olderThanMs), max, ...positionOf(cursor)],
    ...exceptQueues.map(packText),
  ])) as [number, string, string];
  const isOver = nextMinute === "";
  return { pruned, more: !isOver, cursor: isOver ? null : `${nextMinute}:${nextLeft}` };
};

/** The minute that is walked, and how many entries of it are left; empty texts begin at the head. */
function positionOf(cursor: string | null): [minute: string, left: string] {
  const [minute = "", left = ""] = cursor?.split(":") ?? [];
  return [minute, left];
}
