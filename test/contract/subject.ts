/**
 * What a contract case works on: a fresh store under a virtual clock, with the few verbs that nearly every case needs.
 */
import type { ClaimRequest, SubmitAnswer } from "../../src/store/operations.ts";
import type { FeedEvent, JobRecord, LeasedJob, NewJob } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import { aClaim, aRoute } from "../support/builders.ts";
import type { HeldPlatform } from "../support/virtual/held-platform.ts";
import { readWholeFeed } from "../support/walk.ts";

export interface Subject {
  readonly store: Store;
  readonly platform: HeldPlatform;
  /** Each job as its own unit, in one call. */
  readonly submit: (...jobs: readonly NewJob[]) => Promise<readonly SubmitAnswer[]>;
  readonly claim: (
    given?: Partial<ClaimRequest> & { readonly max?: number },
  ) => Promise<readonly LeasedJob[]>;
  /** Submits this job alone and claims it. */
  readonly lease: (job: NewJob, given?: Partial<ClaimRequest>) => Promise<LeasedJob>;
  readonly read: (id: string) => Promise<JobRecord>;
  readonly events: (id?: string) => Promise<readonly FeedEvent[]>;
}

export type ContractCase = readonly [title: string, run: (subject: Subject) => Promise<void>];

export interface ContractGroup {
  readonly about: string;
  readonly cases: readonly ContractCase[];
}

export function createSubject(store: Store, platform: HeldPlatform): Subject {
  const subject: Subject = {
    store,
    platform,
    submit: async (...jobs) =>
      (await store.submit(jobs.map((job) => ({ jobs: [job] })))) as readonly SubmitAnswer[],
    claim: async (given) => (await store.claim(aClaim(given))).jobs,
    lease: async (job, given) => {
      await subject.submit(job);
      const [leased] = await subject.claim({ offers: [{ routes: [aRoute(job)], max: 1 }], ...given });
      if (leased?.id !== job.id) throw new Error(`claimed ${leased?.id}, not ${job.id}`);
      return leased;
    },
    read: async (id) => {
      const [job] = await store.readJobs([id]);
      if (job === null || job === undefined) throw new Error(`there is no job ${id}`);
      return job;
    },
    events: async (id) => {
      const records = await readWholeFeed(store);
      return records.flatMap(({ events }) => events).filter((event) => id === undefined || event.id === id);
    },
  };
  return subject;
}
