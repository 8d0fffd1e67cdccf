/** Jobs as a claim answers them: each with what is its own, however many of those before it were alike. */
import { expect, test } from "vitest";
import { aFlow, aMember, edgeTo } from "../../../../test/contract/cases/flow-jobs.ts";
import { aClaim, aJob, aRoute } from "../../../../test/support/builders.ts";
import { useOwnRedis } from "../../../../test/support/servers/use-redis.ts";
import { readKeyUse, writeKeyUse } from "../../../model/routing/lane.ts";
import type { NewJob } from "../../../store/records.ts";

const redis = useOwnRedis();

test("members of flows that are claimed together differ in what is their own, beside plain and other jobs", async () => {
  const store = await redis.open();
  const members = Array.from({ length: 40 }, (_, at): NewJob => {
    const own = at % 7 === 3 ? { meta: `meta ${at}` } : at % 11 === 5 ? { policy: "{}" } : {};
    const job = aMember(`n${at}`, { flow: "F", need: 0, to: [edgeTo("join")] });
    return { ...job, ...own, input: at % 5 === 0 ? "\x1f" : at % 9 === 0 ? "" : `"${at}"` };
  });
  const jobs = [aFlow(41), ...members, aMember("join", { flow: "F", need: 40 })];
  await store.submit([{ jobs }, { jobs: [aJob({ id: "plain" }), aJob({ id: "tagged", tags: ["t"] })] }]);
  const { jobs: claimed } = await store.claim(aClaim({ max: 100 }));
  expect(claimed.map(({ id }) => id)).toEqual([...members.map(({ id }) => id), "plain", "tagged"]);
  for (const job of claimed) {
    const [record] = await store.readJobs([job.id]);
    for (const field of [
      "seq",
      "fence",
      "rev",
      "attempt",
      "input",
      "policy",
      "meta",
      "createdAt",
      "dueAt",
    ] as const)
      expect([job.id, field, job[field]]).toEqual([job.id, field, record?.[field]]);
  }
});

test("plain jobs that are claimed together differ in what is their own", async () => {
  const store = await redis.open();
  const jobs = Array.from({ length: 12 }, (_, at): NewJob => {
    const own = at === 4 || at === 5 ? { meta: `meta ${at}` } : at === 8 ? { policy: "{}", rankBase: 1 } : {};
    return aJob({ id: at === 2 ? "hard \x1f" : `j${at}`, ...own, input: at % 3 === 0 ? "\x1f" : `"${at}"` });
  });
  await store.submit([{ jobs: jobs.slice(0, 7) }]);
  await store.submit([{ jobs: jobs.slice(7) }]);
  const { jobs: claimed } = await store.claim(aClaim({ max: 20 }));
  expect(claimed).toHaveLength(12);
  for (const { id, seq, fence, input, policy, meta, createdAt, dueAt } of claimed) {
    const [record] = await store.readJobs([id]);
    expect(record).toMatchObject({ id, seq, fence, input, policy, meta, createdAt, dueAt });
    expect(input).toBe(jobs.find((job) => job.id === id)?.input);
  }
});

test("jobs with lanes that are claimed together differ in what is their own, and name the gates of their keys", async () => {
  const store = await redis.open();
  const gatesOf = (at: number): string[] | null => {
    const own = writeKeyUse({
      key: at === 4 ? "g:mail\thard \x1e\x1f" : `g:mail\tk${at}`,
      weight: 1,
      cap: 1,
    });
    if (at % 6 === 5) return null;
    return at % 6 === 3 ? [own, writeKeyUse({ key: `l:slack\tk${at}`, weight: 2, cap: null })] : [own];
  };
  const jobs = Array.from({ length: 24 }, (_, at): NewJob => {
    const own =
      at === 8 || at === 9 ? { meta: `meta ${at}` } : at === 14 ? { policy: "{}", rankBase: 1 } : {};
    const lane = { laneKey: at === 2 ? "hard \x1f" : `lane ${at}`, laneGates: gatesOf(at) };
    return aJob({ id: `j${at}`, ...own, ...lane, input: at % 3 === 0 ? "\x1f" : `"${at}"` });
  });
  await store.submit([{ jobs: jobs.slice(0, 16) }]);
  await store.submit([{ jobs: jobs.slice(16) }]);
  const { jobs: claimed } = await store.claim(
    aClaim({ offers: [{ routes: [aRoute({ laneKey: "any" })], max: 40 }] }),
  );
  expect(claimed).toHaveLength(24);
  for (const { id, seq, fence, input, policy, meta, createdAt, dueAt, keyGates } of claimed) {
    const [record] = await store.readJobs([id]);
    expect(record).toMatchObject({ id, seq, fence, input, policy, meta, createdAt, dueAt });
    const given = jobs.find((job) => job.id === id);
    expect(input).toBe(given?.input);
    expect(keyGates).toEqual(given?.laneGates?.map((use) => readKeyUse(use).key));
  }
});
