import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, describe, expect, it } from "vitest";
import {
  aChange,
  aClaim,
  aJob,
  aSettle,
  finish,
  remove,
  schedule,
} from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { expectEndWithout } from "../../../../test/support/lost-members.ts";
import {
  auditAll,
  findAll,
  readAllDue,
  readWholeFeed,
  recount,
  sortStateCounts,
} from "../../../../test/support/walk.ts";
import { jobStates } from "../../../model/job/job-state.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { openSqliteStore } from "../sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-unreadable-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

/** A store with two innocent jobs and one called "bad" in each of four places, and a hand in its file. */
async function openDamaged(place: Place, damage: string) {
  const path = join(folder, `${files++}.db`);
  const platform = createHeldPlatform();
  const store = await openSqliteStore({ path, platform });
  const submit = async (at: Place, given = {}): Promise<void> => {
    const ids = [`${at}1`, ...(at === place ? ["bad"] : []), `${at}2`];
    await store.submit([{ jobs: ids.map((id) => aJob({ id, tags: ["t"], ...given })) }]);
  };
  await submit("finished");
  const ended = await store.claim(aClaim());
  await store.settleIfLeased(ended.jobs.map((job) => aSettle(job, finish("failed"))));
  await submit("running");
  await store.claim(aClaim({ leaseMs: 10 }));
  await submit("ready");
  await submit("scheduled", { due: { inMs: 10 } });
  const hand = new DatabaseSync(path);
  hand.exec(damage);
  hand.close();
  platform.advance(20);
  return { store, platform };
}

type Place = "ready" | "scheduled" | "running" | "finished";
const places: readonly Place[] = ["ready", "scheduled", "running", "finished"];
const tableOf = (place: Place): string => (place === "finished" ? "millrace_history" : "millrace_job");
const bad = "WHERE id = 'bad'";
const badSeq = "WHERE seq = (SELECT seq FROM millrace_spec WHERE id = 'bad')";
const tooLarge = "9223372036854775807";

const damages: Readonly<Record<string, (place: Place) => string | null>> = {
  "a state that nobody knows": (place) => `UPDATE ${tableOf(place)} SET state = 99 ${bad}`,
  "a state of another table": (place) =>
    `UPDATE ${tableOf(place)} SET state = ${place === "finished" ? 2 : 5} ${bad}`,
  "tags that are no JSON": () => `UPDATE millrace_spec SET tags = '["t"' ${bad}`,
  "tags that are no list": () => `UPDATE millrace_spec SET tags = '{}' ${bad}`,
  "no spec": () => `DELETE FROM millrace_spec ${bad}`,
  "a spec and nothing else": (place) => `DELETE FROM ${tableOf(place)} ${bad}`,
  "an unknown route": (place) => `UPDATE ${tableOf(place)} SET route = 12345 ${bad}`,
  "a rev too large to read": (place) => `UPDATE ${tableOf(place)} SET rev = ${tooLarge} ${bad}`,
  "a due time too large to read": (place) => `UPDATE ${tableOf(place)} SET due_at = ${tooLarge} ${bad}`,
  "a due time too early to read": (place) => `UPDATE ${tableOf(place)} SET due_at = -${tooLarge} ${bad}`,
  "a seq too large to read": (place) =>
    place === "ready"
      ? `UPDATE millrace_job SET seq = ${tooLarge}, rank = 0 ${bad}; DELETE FROM millrace_spec ${bad}`
      : null,
  "a due time that is a text": (place) => `UPDATE ${tableOf(place)} SET due_at = 'soon' ${bad}`,
  "a rank that is a text": (place) => `UPDATE ${tableOf(place)} SET rank = 'high' ${bad}`,
  "a timer that is a text": (place) =>
    place === "running" ? `UPDATE millrace_job SET timer_at = 'x', lease_ends_at = 'x' ${bad}` : null,
  "an input that is no text": () => `UPDATE millrace_spec SET input = x'00ff' ${bad}`,
  "a flag of 7": (place) => `UPDATE ${tableOf(place)} SET cancel_asked = 7 ${bad}`,
  "no end of its lease": (place) =>
    place === "running" ? `UPDATE millrace_job SET lease_ends_at = NULL, timer_at = NULL ${bad}` : null,
  "no time of its end": (place) =>
    place === "finished" ? `UPDATE millrace_history SET ended_at = NULL ${bad}` : null,
  "another id than its spec": (place) => `UPDATE ${tableOf(place)} SET id = 'else' ${badSeq}`,
};

const cases = Object.entries(damages).flatMap(([title, sqlFor]) =>
  places.flatMap((place) => {
    const damage = sqlFor(place);
    return damage === null ? [] : [{ title, place, damage }];
  }),
);

describe("a record that cannot be read", () => {
  it.each(cases)("with $title, $place, stops nobody and is kept as unreadable", async ({ place, damage }) => {
    const { store } = await openDamaged(place, damage);
    try {
      const innocent = (ids: readonly string[]): string[] => ids.filter((id) => /\d$/.test(id)).sort();
      const idsOf = (found: readonly { readonly id: string }[]): string[] =>
        innocent(found.map(({ id }) => id));

      await store.promoteDue({ max: 100 });
      expect(idsOf(await readAllDue(store, "lease"))).toEqual(["running1", "running2"]);
      const { jobs, nextDueInMs } = await store.claim(aClaim());
      expect(idsOf(jobs)).toEqual(["ready1", "ready2", "scheduled1", "scheduled2"]);
      expect(nextDueInMs).toBe(0);
      const innocents = places.flatMap((each) => [`${each}1`, `${each}2`]).sort();
      expect(idsOf(await findAll(store))).toEqual(innocents);
      expect(idsOf(await findAll(store, { tag: "t" }))).toEqual(innocents);
      expect((await store.readJobs([...innocents, "bad"])).slice(0, -1)).not.toContain(null);
      for (const { state } of await store.countJobs()) expect(jobStates).toContain(state);

      await auditAll(store);
      expect(await auditAll(store)).toEqual({});
      expect(sortStateCounts(await store.countJobs())).toEqual(recount(await findAll(store)));
      expect((await findAll(store)).map(({ id }) => id).sort()).toEqual(innocents);
      const { records, cursor } = await store.readUnreadable({ after: null, max: 10 });
      expect(cursor).toBeNull();
      expect(records).toHaveLength(1);
      const [record] = records;
      expect(["bad", "else"]).toContain(record?.id);
      expect(record?.why.length).toBeGreaterThan(5);
      expect(record?.text).toMatch(/millrace_(job|history|spec): seq/);

      expect(await store.deleteUnreadable([record?.ref ?? "", "nobody"])).toBe(1);
      expect(await store.readUnreadable({ after: null, max: 10 })).toEqual({ records: [], cursor: null });
      const pruned = await store.prune({
        ...{ what: "history", outcome: "failed", queue: null, exceptQueues: [] },
        ...{ olderThanMs: 0, max: 100, cursor: null },
      });
      expect(pruned.pruned).toBe(2);
      expect(await store.submit([{ jobs: [aJob({ id: "bad" })] }])).toMatchObject([{ hows: ["created"] }]);
    } finally {
      await store.close();
    }
  });

  it.each(cases)("with $title, $place, can be deleted by its id", async ({ place, damage }) => {
    const { store } = await openDamaged(place, damage);
    try {
      const states = place === "running" ? jobStates.filter((state) => state !== "running") : jobStates;
      const [answer] = await store.changeIf([aChange("bad", states, remove)]);
      expect(["ok", "gone", "changed"]).toContain(answer?.kind);
      await store.prune({
        ...{ what: "history", outcome: "failed", queue: null, exceptQueues: [] },
        ...{ olderThanMs: 0, max: 100, cursor: null },
      });
      expect(await store.readJobs(["finished1", "finished2"])).toEqual([null, null]);
      await auditAll(store);
      expect(await auditAll(store)).toEqual({});
      expect(sortStateCounts(await store.countJobs())).toEqual(recount(await findAll(store)));
    } finally {
      await store.close();
    }
  });

  it("is met once: hundreds of them do not make a list fail, and are paged by their refs", async () => {
    const path = join(folder, `${files++}.db`);
    const store = await openSqliteStore({ path, platform: createHeldPlatform() });
    const ids = Array.from({ length: 300 }, (_, index) => `j${index}`);
    await store.submit([{ jobs: ids.map((id) => aJob({ id, tags: ["t"] })) }]);
    const hand = new DatabaseSync(path);
    hand.exec("UPDATE millrace_spec SET tags = '[' WHERE seq % 3 = 0");
    hand.close();
    expect(await findAll(store)).toHaveLength(200);
    const first = await store.readUnreadable({ after: null, max: 60 });
    const second = await store.readUnreadable({ after: first.cursor, max: 60 });
    expect([first.records.length, second.records.length, second.cursor]).toEqual([60, 40, null]);
    const refs = [...first.records, ...second.records].map(({ ref }) => ref);
    expect(refs).toEqual(refs.toSorted());
    expect(await store.deleteUnreadable(refs)).toBe(100);
    expect(sortStateCounts(await store.countJobs())).toEqual(recount(await findAll(store)));
    await store.close();
  });

  it("is kept as unreadable inside a caller's own transaction too, and comes back with its rollback", async () => {
    const path = join(folder, `${files++}.db`);
    const store = await openSqliteStore({ path, platform: createHeldPlatform() });
    await store.submit([{ jobs: [aJob({ id: "bad", tags: ["t"] }), aJob({ id: "good" })] }]);
    const { jobs } = await store.claim(aClaim());
    const hand = new DatabaseSync(path);
    hand.exec("UPDATE millrace_job SET state = 99 WHERE id = 'bad'");
    const settle = async (end: "COMMIT" | "ROLLBACK"): Promise<unknown> => {
      hand.exec("BEGIN IMMEDIATE");
      const settles = jobs.map((job) => aSettle(job, schedule(5)));
      const answers = await store.inTransaction(hand).settleIfLeased(settles);
      hand.exec(end);
      return answers;
    };
    expect(await settle("ROLLBACK")).toEqual([{ kind: "gone" }, { kind: "ok" }]);
    expect((await store.readUnreadable({ after: null, max: 9 })).records).toEqual([]);
    expect(await settle("COMMIT")).toEqual([{ kind: "gone" }, { kind: "ok" }]);
    expect((await store.readUnreadable({ after: null, max: 9 })).records).toMatchObject([{ id: "bad" }]);
    expect(await auditAll(store)).toEqual({});
    hand.close();
    await store.close();
  });

  it("of the feed loses its events and stops nobody who reads on", async () => {
    const path = join(folder, `${files++}.db`);
    const store = await openSqliteStore({ path, platform: createHeldPlatform() });
    for (const id of ["a", "b", "c"]) await store.submit([{ jobs: [aJob({ id })] }]);
    const hand = new DatabaseSync(path);
    hand.exec("UPDATE millrace_feed SET body = 'no event' WHERE number = 2");
    hand.close();
    const emitted = (await readWholeFeed(store)).map(({ events }) => events.map(({ id }) => id));
    expect(emitted).toEqual([["a"], [], ["c"]]);
    expect((await store.readUnreadable({ after: null, max: 9 })).records).toMatchObject([
      { ref: "feed:2", id: null, text: "'no event'" },
    ]);
    await store.close();
  });
});

it("of a member of a flow lets the flow come to its end", async () => {
  const path = join(folder, `${files++}.db`);
  const store = await openSqliteStore({ path, platform: nodePlatform });
  await expectEndWithout(store, async (id) => {
    const hand = new DatabaseSync(path);
    hand.exec(`UPDATE millrace_spec SET tags = '{}' WHERE id = '${id}'`);
    hand.close();
  });
});
