/** The results of the nodes of a part that completed, in the order of their numbers. */
import { readWaits } from "../../model/flow/waits.ts";
import type { JobRecord } from "../../store/records.ts";
import type { Engine } from "../engine.ts";

const pageMax = 500;

export async function readPartResults(engine: Engine, { id, waits }: JobRecord): Promise<readonly unknown[]> {
  // What makes the nodes of a list is one of them, and has no number.
  const total = waits === null ? 0 : (readWaits(waits).members?.total ?? 0);
  const results: unknown[] = [];
  for (let from = 0; from < total; from += pageMax) {
    const numbers = Array.from({ length: Math.min(pageMax, total - from) }, (_, at) => from + at);
    const records = await Promise.all(numbers.map((number) => engine.reads.add(`${id}.${number}`)));
    for (const record of records)
      if (record?.state === "completed")
        results.push(record.result === null ? undefined : engine.settings.coder.decode(record.result));
  }
  return results;
}
