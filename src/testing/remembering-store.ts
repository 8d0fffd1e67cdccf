/**
 * A store that remembers what was written through it, so that a test can read jobs without awaiting anything. Before
 * a caller gets the answer to a write, the jobs that it touched are read again; what the caller then reads is what the
 * store has.
 *
 * A transaction of the application cannot reach a store in memory, and the commit is not observed: what is written in
 * one is true at once.
 */
import { MillraceError } from "../model/error.ts";
import { isTerminal } from "../model/job/job-state.ts";
import type { JobRecord } from "../store/records.ts";
import type { Store } from "../store/store.ts";

export interface RememberedJob {
  readonly record: JobRecord;
  /** Whether a delete or a purge deleted the job; the record is then the last one seen. */
  readonly isDeleted: boolean;
}

export interface Memory {
  /** Every job that was ever submitted, in the order of submission. */
  all(): readonly RememberedJob[];
  /** The jobs that have not ended. */
  live(): readonly JobRecord[];
}

const pageMax = 500;

export function rememberJobs(inner: Store): { readonly store: Store; readonly memory: Memory } {
  const jobs = new Map<string, RememberedJob>();
  const liveIds = new Set<string>();
  let cursor = 0;
  let reading: Promise<void> = Promise.resolve();

  const remember = (record: JobRecord): void => {
    jobs.set(record.id, { record, isDeleted: false });
    if (isTerminal(record.state)) liveIds.delete(record.id);
    else liveIds.add(record.id);
  };

  const noteDeleted = (id: string): void => {
    const known = jobs.get(id);
    if (known !== undefined) jobs.set(id, { ...known, isDeleted: true });
    liveIds.delete(id);
  };

  const readIds = async (ids: readonly string[]): Promise<void> => {
    for (let from = 0; from < ids.length; from += pageMax) {
      const page = ids.slice(from, from + pageMax);
      const records = await inner.readJobs(page);
      for (const [index, record] of records.entries()) {
        if (record === null) noteDeleted(page[index] as string);
        else remember(record);
      }
    }
  };

  const readNews = async (): Promise<void> => {
    const changed = new Set<string>();
    for (;;) {
      const page = await inner.readFeed({ after: cursor, max: pageMax });
      cursor = page.cursor;
      for (const { events } of page.records) for (const { id } of events) changed.add(id);
      if (page.records.length === 0) break;
    }
    await readIds([...changed]);
  };

  /** Lets one read after the other go out, or an older answer could overwrite a newer one. */
  const inOrder = (read: () => Promise<void>): Promise<void> => (reading = reading.then(read, read));
  const thenRead = async <Answer>(call: Promise<Answer>): Promise<Answer> => {
    const answer = await call;
    await inOrder(readNews);
    return answer;
  };

  const store: Store = {
    ...inner,
    submit: (units) => thenRead(inner.submit(units)),
    claim: (request) => thenRead(inner.claim(request)),
    settleIfLeased: (settles) => thenRead(inner.settleIfLeased(settles)),
    changeIf: (changes) => thenRead(inner.changeIf(changes)),
    promoteDue: (request) => thenRead(inner.promoteDue(request)),
    async recordIfLeased(writes) {
      const answers = await inner.recordIfLeased(writes);
      await inOrder(() => readIds([...new Set(writes.map(({ id }) => id))]));
      return answers;
    },
    inTransaction: (connection) => {
      if ((typeof connection !== "object" && typeof connection !== "function") || connection === null)
        throw new MillraceError(
          "not-in-transaction",
          "The connection cannot be used: it is no object. Pass the transaction.",
        );
      return {
        submit: (units) => store.submit(units),
        settleIfLeased: (settles) => store.settleIfLeased(settles),
        // Nothing is kept: the process lives on, and its worker records the result after the commit.
        async commitSlip({ id, seq, fence }) {
          const [journal] = await inner.readJournal([{ id, after: 0, max: 0, lease: { seq, fence } }]);
          return { kind: journal?.kind === "ok" ? "ok" : "stale" };
        },
      };
    },
  };
  const memory: Memory = {
    all: () => [...jobs.values()].toSorted((left, right) => left.record.seq - right.record.seq),
    live: () => [...liveIds].map((id) => (jobs.get(id) as RememberedJob).record),
  };
  return { store, memory };
}
