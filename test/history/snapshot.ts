/**
 * S: everything the store holds, read when nothing runs any more, with the feed read twice: whole, and in pages of odd
 * sizes.
 */
import { hasMark } from "../../src/model/durable/durable-marks.ts";
import { keyUsesOf } from "../../src/store/rules/gates/lane-change.ts";
import type { FeedRecord, Gate, JobRecord } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { withoutGates } from "../../src/store/state-counts.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { findAll, readAllDocs, readWholeJournal } from "../support/walk.ts";
import { countKind } from "./history.ts";
import type { KeptJournal, KeptOutput, Snapshot } from "./history.ts";

export async function takeSnapshot(store: Store, random: SeededRandom): Promise<Snapshot> {
  const jobs = await findAll(store, {}, 500, 10_000);
  return {
    jobs,
    stateCounts: withoutGates(await store.countJobs()),
    feed: await readFeed(store, () => 1000),
    feedByPages: await readFeed(store, () => random.whole(1, 50)),
    kv: await readAllDocs(store, "kv", "", 500),
    counters: await readAllDocs(store, countKind, "", 500),
    schedules: await readAllDocs(store, "schedule", "", 500),
    gates: await readGates(store, jobs),
    journals: await readJournals(store, jobs),
    outputs: await readOutputs(store, jobs),
    now: (await store.describe()).now,
  };
}

/** All that somebody has put, and the gates of keys that are held although nobody has. */
async function readGates(store: Store, jobs: readonly JobRecord[]): Promise<readonly Gate[]> {
  const { gates } = await store.readGates({ prefix: "", after: null, max: 500 });
  const put = new Set(gates.map(({ key }) => key));
  const named = new Set(jobs.flatMap((job) => keyUsesOf(job).map(({ key }) => key)));
  const keys = [...named].filter((key) => !put.has(key));
  if (keys.length === 0) return gates;
  return [...gates, ...(await store.readGates({ keys })).gates];
}

async function readJournals(store: Store, jobs: readonly JobRecord[]): Promise<KeptJournal[]> {
  const journals: KeptJournal[] = [];
  for (const { id } of jobs.filter(({ durable }) => hasMark(durable, "hasJournal"))) {
    const found = await readWholeJournal(store, { id, after: 0, max: 500 });
    if (found.kind === "ok") journals.push({ id, entries: found.entries });
  }
  return journals;
}

async function readOutputs(store: Store, jobs: readonly JobRecord[]): Promise<KeptOutput[]> {
  const after = { fence: 0, number: 0 };
  const answers = await store.readFrames(jobs.map(({ id }) => ({ id, after, max: 1000 })));
  return answers.flatMap((answer, at) => {
    const { id } = jobs[at] as JobRecord;
    return answer.kind === "ok" && answer.chunks.length > 0 ? [{ id, chunks: answer.chunks }] : [];
  });
}

/** The feeds of all partitions, by time and numbered anew. */
async function readFeed(store: Store, pageMax: () => number): Promise<FeedRecord[]> {
  const { partitions = 1 } = store;
  const all: FeedRecord[] = [];
  for (let partition = 0; partition < partitions; partition++) {
    let after = 0;
    for (;;) {
      const { records, cursor } = await store.readFeed({ partition, after, max: pageMax() });
      if (records.length === 0) break;
      all.push(...records);
      after = cursor;
    }
  }
  if (partitions === 1) return all;
  return all
    .sort((one, other) => one.at - other.at)
    .map((record, index) => ({ ...record, number: index + 1 }));
}
