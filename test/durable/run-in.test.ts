// step.runIn: the record and the caller's rows commit together, so the step happens exactly once.
import { expect, test } from "vitest";
import { SoloRun } from "./solo-run.ts";
import type { SoloHandler } from "./solo-run.ts";

/** A database of the caller: rows of a transaction are there once it commits. The run's store is beside it. */
class Rows {
  readonly rows: string[] = [];
  readonly begin = async <T>(
    use: (transaction: { insert: (row: string) => void }) => Promise<T>,
  ): Promise<T> => {
    const added: string[] = [];
    const result = await use({ insert: (row) => added.push(row) });
    this.rows.push(...added);
    return result;
  };
}

const handlerOn =
  (database: Rows, value: () => string): SoloHandler =>
  async (step) =>
    step.runIn("insert", database.begin, async (transaction: { insert: (row: string) => void }) => {
      const row = value();
      transaction.insert(row);
      return row;
    });

test("a process that dies after the commit does not run the step again: its result is adopted", async () => {
  const solo = new SoloRun();
  const database = new Rows();
  let executions = 0;
  const handle = handlerOn(database, () => `row ${++executions}`);
  // The first append begins the journal, so that the next worker reads it. The second one is that of the result.
  const dies = (when: string, call: number): boolean => when === "before" && call === 1;
  expect(await solo.stay(handle, { dies })).toBeNull();
  expect(solo.run.entries.map(({ key }) => key)).toEqual(["version"]);
  expect(database.rows).toEqual(["row 1"]);
  solo.run.reclaim(solo.run.fence);
  expect(await solo.stay(handle)).toEqual({ kind: "returned", value: "row 1" });
  expect(database.rows).toEqual(["row 1"]);
});

test("the transaction of a second attempt rolls back, and the step has the result of the first", async () => {
  const solo = new SoloRun();
  const database = new Rows();
  const handle = handlerOn(database, () => {
    // Another attempt commits while this one runs.
    solo.run.slips.push({ call: "insert#1", value: '"of the other"' });
    return "mine";
  });
  expect(await solo.stay(handle)).toEqual({ kind: "returned", value: "of the other" });
  expect(database.rows).toEqual([]);
});

test("a stale worker commits nothing", async () => {
  const solo = new SoloRun();
  const database = new Rows();
  const handle = handlerOn(database, () => {
    solo.run.reclaim(solo.run.fence);
    return "late";
  });
  const end = await solo.stay(handle, { judge: () => "retry" });
  expect(end?.kind).toBe("lost");
  expect(database.rows).toEqual([]);
});
