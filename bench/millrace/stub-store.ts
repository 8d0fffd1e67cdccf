/**
 * A store that does nothing, as fast as nothing can be done: claims hand out jobs made beforehand, settles and submits
 * say yes. What a run over it costs is the engine's own cost. It keeps no promise of the contract beyond the shape of
 * its answers.
 */
import { notYetSupported } from "../../src/model/error.ts";
import { routeOf } from "../../src/model/routing/route.ts";
import type { SettleAnswer, SubmitAnswer, SubmitHow } from "../../src/store/operations.ts";
import type { LeasedJob } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";

export interface StubJobs {
  readonly queue: string;
  readonly name: string;
  readonly count: number;
  /** The encoded input of every job. */
  readonly input: string;
}

const ok: SettleAnswer = { kind: "ok" };
const sizeMax = 100_000;

export function openStubStore({ queue, name, count, input }: StubJobs): Store {
  const route = routeOf({ queue, name });
  const jobs = makeJobs(count, input, route.number);
  const yes = repeated(ok);
  const created = repeated<SubmitHow>("created");
  let next = 0;
  const refuse = (what: string) => () => Promise.reject(notYetSupported(what));
  const nothingDue = { jobs: [], cursor: null, now: 0, nextInMs: null };

  return {
    describe: () =>
      Promise.resolve({
        kind: "stub",
        durability: "memory",
        epoch: 0,
        now: 0,
        schemaVersion: 1,
        capabilities: { transactions: false, processes: "one" },
        warnings: ["This store keeps nothing."],
      }),
    submit: (units) =>
      Promise.resolve(
        units.map((unit): SubmitAnswer => ({
          kind: "ok",
          ids: unit.jobs.map((job) => job.id),
          hows: created(unit.jobs.length),
        })),
      ),
    claim({ offers }) {
      let max = 0;
      for (const offer of offers) max += offer.max;
      const claimed = max === 0 ? [] : jobs.slice(next, next + max);
      next += claimed.length;
      return Promise.resolve({ jobs: claimed, more: next < count, nextDueInMs: null, now: 0 });
    },
    settleIfLeased: (settles) => Promise.resolve(yes(settles.length)),
    extendIfLeased: ({ leases }) =>
      Promise.resolve({ answers: leases.map(() => "ok" as const), others: [], now: 0 }),
    recordIfLeased: (writes) => Promise.resolve(writes.map(() => "ok" as const)),
    changeIf: (changes) => Promise.resolve(changes.map(() => ({ kind: "gone" }) as const)),
    promoteDue: () => Promise.resolve({ count: 0, more: false, nextDueInMs: null }),
    readDue: () => Promise.resolve(nothingDue),
    putGates: (puts) => Promise.resolve(puts.map(() => ({ kind: "ok", version: 1 }) as const)),
    readGates: () => Promise.resolve({ gates: [], cursor: null, now: 0 }),
    putDocs: (puts) => Promise.resolve(puts.map(() => ({ kind: "ok", version: 1 }) as const)),
    heartbeat: () =>
      Promise.resolve({ puts: [], read: { docs: [], cursor: null }, ready: [], nextDueInMs: null, now: 0 }),
    readDueDocs: () => Promise.resolve({ docs: [], cursor: null, now: 0, nextInMs: null }),
    readDocs: () => Promise.resolve({ docs: [], cursor: null }),
    readJobs: (ids) => Promise.resolve(ids.map(() => null)),
    findJobs: () => Promise.resolve({ jobs: [], cursor: null, scanned: 0 }),
    countJobs: () => Promise.resolve([{ queue, name, state: "completed", count: next }]),
    readRoutes: () => Promise.resolve([route]),
    readFeed: ({ after }) => Promise.resolve({ records: [], cursor: after }),
    readFrames: (reads) => Promise.resolve(reads.map(() => ({ kind: "gone" }) as const)),
    readJournal: (reads) => Promise.resolve(reads.map(() => ({ kind: "gone" }) as const)),
    readLogs: ({ after }) => Promise.resolve({ lines: [], cursor: after }),
    prune: () => Promise.resolve({ pruned: 0, more: false, cursor: null }),
    auditIndexes: () => Promise.resolve({ checked: 0, repaired: {}, cursor: null }),
    readUnreadable: () => Promise.resolve({ records: [], cursor: null }),
    deleteUnreadable: () => Promise.resolve(0),
    exportPage: refuse("exportPage"),
    importPage: refuse("importPage"),
    watch: () => () => {},
    inTransaction() {
      throw notYetSupported("A transaction on the stub store");
    },
    close: () => Promise.resolve(),
  };
}

function makeJobs(count: number, input: string, route: number): LeasedJob[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `stub${String(index).padStart(17, "0")}`,
    seq: index + 1,
    fence: 1,
    route,
    rev: 2,
    attempt: 1,
    input,
    policy: null,
    meta: null,
    attempts: null,
    createdAt: 0,
    dueAt: 0,
    claimedAt: 0,
    deadlineAt: null,
    durable: 0,
  }));
}

/** The same array for the same length, so that answering costs nothing. */
function repeated<Value>(value: Value): (length: number) => readonly Value[] {
  const known = new Map<number, readonly Value[]>();
  return (length) => {
    let values = known.get(length);
    if (values === undefined) {
      values = Array.from({ length: Math.min(length, sizeMax) }, () => value);
      known.set(length, values);
    }
    return values;
  };
}
