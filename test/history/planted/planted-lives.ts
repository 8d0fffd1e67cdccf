/** Planted violations of the life of a job, of order, effects and ends: invariants 18 and above. */
import { appendAttempt } from "../../../src/model/job/attempt-log.ts";
import { aJob } from "../../support/builders.ts";
import type { Evidence } from "../history.ts";
import { bendEvent, dropEvent, key, twoAttempts, withSnapshot } from "./planted.ts";
import type { Planted } from "./planted.ts";

export const plantedLives: readonly Planted[] = [
  [
    18,
    "a scheduled job ends without ever being claimed",
    (s) => {
      s.submit({ id: "a", due: { inMs: 100 } });
      s.change("a", "completed", "completed");
    },
  ],
  [
    18,
    "a running job is deleted",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.remove("a");
    },
  ],
  [
    19,
    "a completed job fails afterwards",
    (s) => (s.live("a"), s.change("a", "failed", "failed", "retries-exhausted")),
  ],
  [
    20,
    "a snooze burns an attempt",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.change("a", "snoozed", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    20,
    "a revoke burns an attempt",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.revoke("a");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    20,
    "a job is tried more often than it may",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      for (let attempt = 0; attempt < 3; attempt++) {
        s.claim("a");
        if (attempt < 2) s.settle("a", "retry");
      }
      s.settle("a", "completed");
    },
  ],
  [
    21,
    "a job is given up before its last attempt",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.settle("a", "failed", { reason: "retries-exhausted" });
    },
  ],
  [22, "a job is in another state than the feed says", (s) => (s.live("a"), (s.job("a").state = "failed"))],
  [
    22,
    "a job is there twice",
    (s) => s.live("a"),
    withSnapshot(({ jobs }) => ({ jobs: [...jobs, ...jobs] })),
  ],
  [
    23,
    "an error is forgotten",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.settle("a", "retry");
      s.claim("a");
      s.settle("a", "completed");
      s.job("a").attempts = null;
    },
  ],
  [
    23,
    "a revoke is kept as an error",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.revoke("a");
      s.claim("a", { counts: 0 });
      s.settle("a", "completed");
      s.job("a").attempts = appendAttempt(null, { attempt: 1, outcome: "lease-expired", at: s.now });
    },
  ],
  [24, "the store's clock goes back", (s) => (s.live("a"), (s.now -= 500), s.live("b"))],
  [24, "a job ends before it was claimed", (s) => (s.live("a"), (s.job("a").endedAt = 1))],
  [
    25,
    "a job is claimed before it is due",
    (s) => {
      s.submit({ id: "a" });
      s.job("a").dueAt = s.now + 5;
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    26,
    "a due job lies around",
    (s) => {
      s.isFaultFree = true;
      s.submit({ id: "a", due: { inMs: 100 } });
      s.now += 10_000;
      s.change("a", "promoted", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    27,
    "a retry comes later than its policy allows",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.settle("a", "retry");
      bendEvent(s, s.feed.length - 1, { state: "scheduled", extra: s.now + 77 });
      s.change("a", "promoted", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    31,
    "a claim hands out the later one first",
    (s) => {
      s.submit({ id: "a" }, { id: "b" });
      s.claim(["b", "a"]);
      s.settle("a", "completed");
      s.settle("b", "completed");
    },
  ],
  [
    32,
    "a worse one is claimed while a better one waits",
    (s) => {
      s.submit({ id: "a", rankBase: -10 }, { id: "b" });
      s.claim("b");
      s.claim("a");
      s.settle("a", "completed");
      s.settle("b", "completed");
    },
  ],
  [
    36,
    "two live jobs have one key",
    (s) => (s.submit({ id: "a", ...key() }), s.submit({ id: "b", ...key() })),
  ],
  [
    36,
    "a submit is answered with a job of another key",
    (s) => {
      s.live("a");
      s.call(
        "submit",
        [{ jobs: [aJob({ id: "b", ...key() })] }],
        [{ kind: "ok", ids: ["a"], hows: ["existing"] }],
      );
    },
  ],
  [46, "a job completes without a run", (s) => (s.live("a"), (s.effects.length = 0))],
  [
    45,
    "a job is run again although its cancel was asked for",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.change("a", "cancel-asked", "running", "w1");
      s.settle("a", "retry");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    46,
    "a job is run more often than it was claimed",
    (s) => {
      s.live("a");
      s.effects.push({ ...(s.effects[0] as Evidence["effects"][number]), fence: 2 });
    },
  ],
  [
    47,
    "the follow-up of a completion is missing",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.settle("a", "completed", { effects: aJob({ id: "b" }) });
      s.jobs.delete("b");
      dropEvent(s, s.feed.length - 1);
    },
  ],
  [
    47,
    "an entry is there that no completion wrote",
    (s) => (
      s.live("a"),
      s.kv.push({ kind: "kv", id: "x", version: 1, body: "1", dueAt: null, expiresAt: null })
    ),
  ],
  [
    49,
    "a read after the enqueue does not see the job",
    (s) => {
      s.live("a");
      s.operations.push({
        kind: "read-back",
        actor: "p1",
        invokedUs: 0,
        answeredUs: 1,
        seen: "ok",
        order: null,
        id: "a",
        found: false,
      });
    },
  ],
  [50, "the counts are wrong", (s) => s.live("a"), withSnapshot(() => ({ stateCounts: [] }))],
  [
    51,
    "a page of the feed is missing",
    (s) => s.live("a"),
    withSnapshot(({ feed }) => ({ feedByPages: feed.slice(1) })),
  ],
  [51, "an event of a job is missing", (s) => (s.live("a"), s.feed.splice(1, 1))],
  [51, "the feed's numbers go back", (s) => (s.live("a"), ((s.feed[1] as { number: number }).number = 1))],
  [52, "a job vanishes that nobody asked to remove", (s) => (s.live("a"), s.change("a", "deleted", null))],
  [
    52,
    "a purge leaves a job that had ended before it began",
    (s) => {
      s.live("a");
      s.now += 10;
      s.purge("a");
    },
  ],
  [
    52,
    "a purge says that it deleted more than it did",
    (s) => {
      s.live("a");
      s.purge();
      Object.assign(s.operations.find(({ kind }) => kind === "purge") as object, { deleted: 2 });
    },
  ],
  [
    54,
    "a stopped worker still holds a job",
    (s) => {
      s.live("a");
      s.operations.push({
        kind: "stop",
        actor: "p1",
        owner: "w1",
        invokedUs: 0,
        answeredUs: 1,
        seen: "ok",
        order: null,
        held: ["a"],
        isUndisturbed: true,
      });
    },
  ],
  [55, "a timer is left behind", (s) => (s.live("a"), (s.leftovers = { timers: 1 }))],
];
