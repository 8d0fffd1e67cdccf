/**
 * Whether a claim was answered too early: what it hands out must be claimable in the store as the bucket has it at that
 * moment. A job is, if it is ready there, all jobs before it in its lane have been claimed, and its gates have room for
 * it.
 *
 * Claims that have not landed count as if they had: the log lands in order, so whatever loses the earlier claim loses
 * the later one with it. What such a claim took still holds its permits, because only a commit that has not landed
 * either can have given them back.
 */
import { rmSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { gatesToPass } from "../../src/model/limits/gate.ts";
import { isKeyedGate, readKeyUse } from "../../src/model/routing/lane.ts";
import type { KeyUse } from "../../src/model/routing/lane.ts";
import type { Route } from "../../src/model/routing/route.ts";
import type { ClaimAnswer, ReadGatesAnswer } from "../../src/store/operations.ts";
import type { JobRecord, LeasedJob } from "../../src/store/records.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";
import { readNote } from "../../src/stores/bucket/takeover/held-bucket.ts";
import { Replica } from "../../src/stores/bucket/copy/replica.ts";
import { closeSession, commitCalls, openSession } from "../../src/stores/sqlite/connection/commit.ts";
import type { Call } from "../../src/stores/sqlite/connection/commit.ts";
import { openDatabase } from "../../src/stores/sqlite/connection/open-file.ts";

const epochOfNobody = 1_000_000;
const pageSize = 4096;

export type Taken = Pick<LeasedJob, "id" | "route">;

export interface HandedOut {
  readonly answer: ClaimAnswer;
  /** What other claims have taken that were committed before or with this one and have not landed. */
  readonly before: readonly Taken[];
  readonly pid: number;
}

/** Sentences about jobs that were not claimable; `path` is for a copy of the bucket's file. */
export async function handedOutEarly(
  objects: Objects,
  path: string,
  { answer, before, pid }: HandedOut,
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
    const taken = [...before, ...answer.jobs];
    const ids = taken.map(({ id }) => id);
    const records = ask<readonly (JobRecord | null)[]>("readJobs", ids);
    const routes = new Map(ask<readonly Route[]>("readRoutes", null).map((route) => [route.number, route]));
    const usesOf = (at: number): readonly KeyUse[] => {
      const route = routes.get((taken[at] as Taken).route);
      const ofRoute = route === undefined ? [] : gatesToPass(route);
      return [
        ...ofRoute.map((use) => ({ ...use, cap: null })),
        ...(records[at]?.laneGates ?? []).map(readKeyUse),
      ];
    };
    const keys = new Set([...taken.keys()].flatMap((at) => usesOf(at).map(({ key }) => key)));
    const { gates } = ask<ReadGatesAnswer>("readGates", { keys: [...keys] });
    const heldAt = (key: string): number =>
      isKeyedGate(key) ? permitsOf(database, key) : (gates.find((gate) => gate.key === key)?.held ?? 0);
    const found: string[] = [];
    // In the order in which they were taken: jobs of one group may have caps that differ.
    const asked = new Map<string, number>();
    for (const [at, { id }] of taken.entries()) {
      const isOwn = at >= before.length;
      const state = records[at]?.state ?? "not there";
      if (state !== "ready") {
        if (isOwn) found.push(`${id} is ${state}`);
        continue;
      }
      for (const { key, cap: own, weight } of usesOf(at)) {
        asked.set(key, (asked.get(key) ?? 0) + weight);
        const gate = gates.find((each) => each.key === key);
        const cap = own ?? gate?.cap ?? null;
        if (!isOwn) continue;
        if (cap !== null && heldAt(key) + (asked.get(key) ?? 0) > cap)
          found.push(`${id} finds no room at ${key}`);
        if ((gate?.closedUntil ?? 0) > answer.now) found.push(`${id} meets ${key} closed`);
      }
      if (!isOwn) continue;
      for (const first of aheadOf(database, id))
        if (!ids.includes(first)) found.push(`${id} waits for ${first} in its lane`);
    }
    return found;
  } finally {
    closeSession(session);
    for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`, { force: true });
  }
}

function permitsOf(database: DatabaseSync, key: string): number {
  const row = database.prepare("SELECT held FROM millrace_permit WHERE key = ?").get(key);
  return (row?.["held"] as number | undefined) ?? 0;
}

/** The ids of the jobs before this one in its lane. */
function aheadOf(database: DatabaseSync, id: string): string[] {
  const rows = database
    .prepare(
      `SELECT ahead.id AS id FROM millrace_spec s JOIN millrace_line own ON own.seq = s.seq
        JOIN millrace_line other ON other.lane = own.lane AND (other.rank, other.seq) < (own.rank, own.seq)
        JOIN millrace_spec ahead ON ahead.seq = other.seq WHERE s.id = ?`,
    )
    .all(id);
  return rows.map((row) => (row as { id: string }).id);
}
