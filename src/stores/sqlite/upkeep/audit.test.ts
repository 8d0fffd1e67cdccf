import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { aClaim, aJob, aRoute, aSettle, finish } from "../../../../test/support/builders.ts";
import { groupGateKey, groupLane, keyedGate, writeKeyUse } from "../../../model/routing/lane.ts";
import type { ClaimAnswer } from "../../../store/operations.ts";
import type { AuditAnswer } from "../../../store/upkeep.ts";
import { openSession, commitCalls } from "../connection/commit.ts";
import type { Call, Session } from "../connection/commit.ts";
import { migrate } from "../connection/migrate.ts";
import { configure } from "../connection/open-file.ts";

function ask<A>(session: Session, operation: Call["operation"], request: unknown): A {
  const [outcome] = commitCalls(session, [{ operation, request }], 1000).outcomes;
  if (outcome?.kind !== "answer") throw new Error(`${operation} gave no answer`, { cause: outcome });
  return outcome.answer as A;
}

function walk(session: Session, max: number): Record<string, number> {
  const all: Record<string, number> = {};
  let cursor: string | null = null;
  do {
    const answer: AuditAnswer = ask(session, "auditIndexes", { cursor, max });
    for (const [kind, repaired] of Object.entries(answer.repaired)) all[kind] = (all[kind] ?? 0) + repaired;
    cursor = answer.cursor;
  } while (cursor !== null);
  return all;
}

function openSessionInMemory(): { readonly database: DatabaseSync; readonly session: Session } {
  const database = new DatabaseSync(":memory:");
  configure(database, { path: ":memory:", durability: "strict", lockSleepMs: 0 });
  migrate(database, ":memory:");
  return {
    database,
    session: openSession(database, { path: ":memory:", epoch: 1, opener: null, identity: null }),
  };
}

it("an audit makes lanes anew where a hand in the file broke them, and what was held by nobody is free", () => {
  const { database, session } = openSessionInMemory();
  const key = keyedGate(groupGateKey("mail"), "k");
  const lane = { laneKey: "k", laneGates: [writeKeyUse({ key, weight: 1, cap: 1 })] };
  ask(session, "submit", [{ jobs: ["a", "b", "c", "d"].map((id) => aJob({ id, ...lane })) }]);
  expect(walk(session, 1000)).toEqual({});
  const hands: [sql: string, changes: number][] = [
    // A job that is not there, in a lane that is not there; a permit that nobody holds.
    ["INSERT INTO millrace_line VALUES (77, 1, 99, 5, NULL)", 1],
    [`INSERT INTO millrace_permit VALUES ('${key}', 1, 0, NULL)`, 1],
    // The lane shows another job, and none.
    ["UPDATE millrace_lane SET seq = 3", 1],
    ["UPDATE millrace_lane SET rank = NULL, seq = NULL, route = NULL", 1],
    // A job is missing, in another place, or not there; all are missing; the lane is gone with all its entries.
    ["DELETE FROM millrace_line WHERE seq = 2", 1],
    ["UPDATE millrace_line SET rank = rank + 1 WHERE seq = 1", 2],
    ["INSERT INTO millrace_line SELECT number, rank, 99, route, NULL FROM millrace_lane", 1],
    ["DELETE FROM millrace_line", 4],
    ["DELETE FROM millrace_lane", 8],
  ];
  for (const [sql, changes] of hands) {
    database.exec(sql);
    expect(walk(session, 1000), sql).toEqual({ lane: changes });
    expect(walk(session, 1000), sql).toEqual({});
  }
  const offers = [{ routes: [aRoute({ laneKey: "k" })], max: 5 }];
  expect(ask(session, "claim", aClaim({ offers }))).toMatchObject({ jobs: [{ id: "a" }] });
  database.close();
});

it("an audit counts anew what running jobs hold of their group", () => {
  const { database, session } = openSessionInMemory();
  const key = keyedGate(groupGateKey("mail"), "k");
  const laneGates = [writeKeyUse({ key, weight: 1, cap: 1 })];
  const lane = { laneKey: groupLane("mail", "k", "rank"), laneGates };
  const claim = (): ClaimAnswer =>
    ask(session, "claim", aClaim({ offers: [{ routes: [aRoute({ laneKey: "any" })], max: 5 }] }));
  ask(session, "submit", [{ jobs: ["a", "b"].map((id) => aJob({ id, ...lane })) }]);
  const [a] = claim().jobs;
  expect(walk(session, 1000)).toEqual({});
  const hands: [sql: string, changes: number][] = [
    ["DELETE FROM millrace_permit", 1],
    ["UPDATE millrace_permit SET held = 7", 1],
    // The lane and the entry of the second job in it.
    ["DELETE FROM millrace_lane", 2],
  ];
  for (const [sql, changes] of hands) {
    database.exec(sql);
    expect(walk(session, 1000), sql).toEqual({ lane: changes });
    expect(walk(session, 1000), sql).toEqual({});
    expect(claim().jobs, sql).toEqual([]);
  }
  ask(session, "settleIfLeased", [aSettle(a!, finish("completed"))]);
  expect(claim()).toMatchObject({ jobs: [{ id: "b" }] });
  expect(walk(session, 1000)).toEqual({});
  ask(session, "submit", [{ jobs: [aJob({ id: "c", ...lane })] }]);
  expect(claim().jobs).toEqual([]);
  database.close();
});

for (const max of [1, 3, 1000]) {
  it(`an audit in steps of ${max} finds what a hand in the file broke, and nothing the second time`, () => {
    const { database, session } = openSessionInMemory();
    const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
    ask(session, "submit", [
      {
        jobs: ["a", "b", "c", "d"].map((id) =>
          aJob({ id, tags: ["x", "y"], deadline: { inMs: 5000 }, due: { inMs: 10 } }),
        ),
      },
      { jobs: [aJob({ id: "u", unique })] },
    ]);
    expect(walk(session, max)).toEqual({});
    database.exec(`UPDATE millrace_job SET timer_at = 7 WHERE id IN ('a', 'c');
      INSERT INTO millrace_unique VALUES ('lost', 99, 'z', NULL), ('timed', 99, 'z', 5000);
      INSERT INTO millrace_tag VALUES ('a', 77), ('x', 77), ('z', 78);
      INSERT INTO millrace_log VALUES (77, 0, 1, 0, 'line'), (77, 9, 2, 0, 'chunk');
      INSERT INTO millrace_journal VALUES (77, 1, 0, 'key', 'body', 0, 0);
      INSERT INTO millrace_past_key VALUES (77, 1, 'key');
      INSERT INTO millrace_slip VALUES (77, 'key', 'body'), (78, 'key', 'body');
      UPDATE millrace_state_count SET count = 9 WHERE state = 1; INSERT INTO millrace_state_count VALUES (1, 9, 3)`);
    expect(walk(session, max)).toEqual({ timer: 2, unique: 1, tag: 3, log: 2, journal: 4, "state-count": 2 });
    expect(walk(session, max)).toEqual({});
    expect(ask(session, "countJobs", null)).toMatchObject([
      { state: "scheduled", count: 4 },
      { state: "ready", count: 1 },
    ]);
    database.close();
  });
}

it("a run that cannot be read takes its journal along, and the others keep theirs", () => {
  const { database, session } = openSessionInMemory();
  ask(session, "submit", [{ jobs: [aJob({ id: "a" }), aJob({ id: "b" })] }]);
  const { jobs } = ask<ClaimAnswer>(session, "claim", aClaim());
  const entries = [{ key: "one", body: "1", unread: 1 }];
  ask(
    session,
    "recordIfLeased",
    jobs.map(({ id, seq, fence }) => ({ id, seq, fence, entries })),
  );
  database.exec(`INSERT INTO millrace_past_key VALUES (1, 1, 'past'), (2, 1, 'past');
    INSERT INTO millrace_slip VALUES (1, 'step', '1'), (2, 'step', '1');
    UPDATE millrace_job SET durable = 'x' WHERE id = 'a'`);
  expect(walk(session, 1000)).toEqual({ unreadable: 1 });
  for (const table of ["journal", "past_key", "slip"])
    expect(database.prepare(`SELECT seq FROM millrace_${table}`).all()).toEqual([{ seq: 2 }]);
  expect(walk(session, 1000)).toEqual({});
  database.close();
});
