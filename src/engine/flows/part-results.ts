/**
 * The result of a member that has completed. Of a job it is what its handler returned; of a map, a group or a race the
 * results of its nodes that completed, in the order of their numbers; of a flow inside the flow those of the nodes
 * whose success nothing in it waits for, by their names.
 */
import { pathOfId, rootOf, idOfPath } from "../../model/flow/flow-meta.ts";
import { readWaits } from "../../model/flow/flow-waits.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { flowMetaOf } from "./members.ts";

type PartResultsNeeds = Needs<"coder" | "reads">;

const pageMax = 500;

/** Undefined where it returned nothing, has not completed, or nothing is kept. */
export async function readMemberResult(needs: PartResultsNeeds, record: JobRecord): Promise<unknown> {
  const { part } = flowMetaOf(record);
  if (part === undefined) return record.result === null ? undefined : needs.coder.decode(record.result);
  return part.kind === "flow" ? readFlowResult(needs, record) : readPartResults(needs, record);
}

/** Of a whole flow, or of one inside of another. */
export async function readFlowResult(
  needs: PartResultsNeeds,
  record: JobRecord,
): Promise<Readonly<Record<string, unknown>>> {
  const { id } = record;
  const { ends = [], returned } = flowMetaOf(record);
  const path = pathOfId(id);
  const root = rootOf(id) ?? id;
  const named =
    returned === undefined
      ? ends.map((end) => [path === "" ? end : end.slice(path.length + 1), end] as const)
      : Object.entries(returned);
  const results = await Promise.all(
    named.map(async ([name, end]) => {
      const member = await needs.reads.add(idOfPath(root, end));
      return [name, member === null ? undefined : await readMemberResult(needs, member)] as const;
    }),
  );
  return Object.fromEntries(results.filter(([, result]) => result !== undefined));
}

async function readPartResults(
  needs: PartResultsNeeds,
  { id, waits }: JobRecord,
): Promise<readonly unknown[]> {
  // What makes the nodes of a list is one of them, and has no number.
  const total = waits === null ? 0 : (readWaits(waits).members?.total ?? 0);
  const results: unknown[] = [];
  for (let from = 0; from < total; from += pageMax) {
    const numbers = Array.from({ length: Math.min(pageMax, total - from) }, (_, at) => from + at);
    const records = await Promise.all(numbers.map((number) => needs.reads.add(`${id}.${number}`)));
    for (const record of records)
      if (record?.state === "completed") results.push(await readMemberResult(needs, record));
  }
  return results;
}
