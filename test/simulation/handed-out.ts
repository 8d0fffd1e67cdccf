/**
 * Whether a claim was answered too early: what it hands out must be claimable in the store as the bucket has it at that
 * moment. A job is, if it is ready there, the first of its lane, and its gates let it pass.
 */
import { rmSync } from "node:fs";
import { gatesToPass } from "../../src/model/gate.ts";
import type { Route } from "../../src/model/route.ts";
import type { ClaimAnswer, ReadGatesAnswer } from "../../src/store/operations.ts";
import type { JobRecord } from "../../src/store/records.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";
import { readNote } from "../../src/stores/bucket/held.ts";
import { Replica } from "../../src/stores/bucket/replica.ts";
import { closeSession, commitCalls, openSession } from "../../src/stores/sqlite/commit.ts";
import type { Call } from "../../src/stores/sqlite/commit.ts";
import { openDatabase } from "../../src/stores/sqlite/open-file.ts";
import { aClaim, aGate } from "../support/builders.ts";

const epochOfNobody = 1_000_000;
const pageSize = 4096;

/** Sentences about jobs that were not claimable; `path` is for a copy of the bucket's file. */
export async function handedOutEarly(
  objects: Objects,
  path: string,
  { answer, pid }: { readonly answer: ClaimAnswer; readonly pid: number },
): Promise<string[]> {
  const replica = await Replica.restore(objects, { path, pageSize });
  replica.close();
  // One that was replaced and does not know yet hands out jobs that others have, too.
  if (readNote(replica)?.pid !== pid) return [];
  const database = openDatabase({ path, durability: "strict", lockSleepMs: 0 });
  const session = openSession(database, { path, epoch: epochOfNobody, opener: null, identity: null });
  const ask = <Answer>(operation: Call["operation"], request: unknown): Answer => {
    const [outcome] = commitCalls(session, [{ operation, request }], answer.now).outcomes;
    if (outcome?.kind !== "answer") throw new Error(`${operation} failed on the copy`, { cause: outcome });
    return outcome.answer as Answer;
  };
  try {
    const ids = answer.jobs.map(({ id }) => id);
    const found: string[] = [];
    const records = ask<readonly (JobRecord | null)[]>("readJobs", ids);
    for (const [at, id] of ids.entries())
      if (records[at]?.state !== "ready") found.push(`${id} is ${records[at]?.state ?? "not there"}`);
    const routes = ask<readonly Route[]>("readRoutes", null);
    const byNumber = new Map(routes.map((route) => [route.number, route]));
    const { gates } = ask<ReadGatesAnswer>("readGates", { prefix: "", after: null, max: 10_000 });
    for (const { id, route } of answer.jobs) {
      const content = byNumber.get(route);
      for (const { key, weight } of content === undefined ? [] : gatesToPass(content)) {
        const gate = gates.find((each) => each.key === key);
        if (gate === undefined) continue;
        if (gate.cap !== null && gate.held + weight > gate.cap) found.push(`${id} finds no room at ${key}`);
        if (gate.closedUntil !== null && gate.closedUntil > answer.now)
          found.push(`${id} meets ${key} closed`);
      }
    }
    // With every gate open only lanes hold a ready job back.
    ask(
      "putGates",
      gates.map(({ key }) => aGate(key)),
    );
    const claimable = new Set<string>();
    for (const route of new Set(answer.jobs.map((job) => job.route))) {
      const offers = [{ routes: [route], max: 100_000 }];
      for (const { id } of ask<ClaimAnswer>("claim", aClaim({ offers })).jobs) claimable.add(id);
    }
    for (const [at, id] of ids.entries())
      if (typeof records[at]?.laneKey === "string" && !claimable.has(id))
        found.push(`${id} is not the first of its lane`);
    return found;
  } finally {
    closeSession(session);
    for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`, { force: true });
  }
}
