/** The checker is only worth what it can find: every invariant is shown to fail on a planted violation, and true histories pass. */
import { describe, expect, test } from "vitest";
import type { Evidence } from "./history.ts";
import { checkHistory, tellStory } from "./check-history.ts";
import { Scribe } from "./scribe.ts";
import { aJob } from "../support/builders.ts";

type Write = (scribe: Scribe) => void;
type Bend = (evidence: Evidence) => Evidence;

function found(write: Write, bend: Bend = (evidence) => evidence): number[] {
  const scribe = new Scribe();
  write(scribe);
  return [...new Set(checkHistory(bend(scribe.evidence())).map(({ invariant }) => invariant))];
}

const key = (
  hold: "end" | "started" | number = "end",
): { unique: { key: string; hold: typeof hold; onHeld: "keep" } } => ({
  unique: { key: "k", hold, onHeld: "keep" },
});
const twoAttempts = {
  policy: JSON.stringify({ attempts: 2, backoff: { kind: "fixed", delayMs: 0, jitter: "none" } }),
};

const trueHistories: Record<string, Write> = {
  "a job that completes": (s) => s.live("a"),
  "a retry, a snooze and a hand-back": (s) => {
    s.submit({ id: "a", ...twoAttempts });
    s.claim("a");
    s.settle("a", "retry");
    s.claim("a");
    s.change("a", "snoozed", "ready");
    s.claim("a", { counts: 0 });
    s.change("a", "handed-back", "ready");
    s.claim("a", { counts: 0 });
    s.settle("a", "failed", { reason: "retries-exhausted" });
  },
  "a lease that ran out, and a late settle that is refused": (s) => {
    s.submit({ id: "a", ...twoAttempts });
    s.claim("a");
    s.now += 500;
    s.extend("a");
    s.now += 1000;
    s.change("a", "reclaimed", "ready");
    s.extend("a", "stale");
    s.settle("a", "completed", { answer: "stale" });
    s.claim("a");
    s.settle("a", "completed");
  },
  "a replay, a removal and a second life under the same id": (s) => {
    s.live("a");
    s.change("a", "replayed", "ready");
    s.claim("a");
    s.settle("a", "completed");
    s.change("a", "removed", null);
    s.live("a");
  },
  "a unique key that passes from one job to the next": (s) => {
    s.live("a", key());
    s.live("b", key());
    s.submit({ id: "c", ...key("started") });
    s.claim("c");
    s.submit({ id: "d", ...key("started") });
    s.settle("c", "completed");
    s.claim("d");
    s.settle("d", "completed");
  },
  "a follow-up that is made with the completion": (s) => {
    s.submit({ id: "a" });
    s.claim("a");
    s.settle("a", "completed", { effects: aJob({ id: "b" }) });
    s.claim("b");
    s.settle("b", "completed");
  },
};

describe("true histories", () => {
  test.each(Object.entries(trueHistories))("%s is accepted", (_name, write) => {
    expect(found(write)).toEqual([]);
  });
});

const withSnapshot =
  (change: (snapshot: Evidence["snapshot"]) => Partial<Evidence["snapshot"]>): Bend =>
  (evidence) => ({ ...evidence, snapshot: { ...evidence.snapshot, ...change(evidence.snapshot) } });

const enqueue = (given: { seen: "ok" | "failed" | "unknown"; inputs: string[]; got: string[] | null }) =>
  ({ kind: "enqueue", actor: "p1", invokedUs: 0, answeredUs: 1, order: null, ...given }) as const;

/** Forgets the last event of a record. */
function dropEvent(scribe: Scribe, index: number): void {
  const record = scribe.feed[index] as { events: Evidence["snapshot"]["feed"][number]["events"] };
  record.events = record.events.slice(0, -1);
}

function bendEvent(scribe: Scribe, index: number, change: object): void {
  const record = scribe.feed[index] as { events: Evidence["snapshot"]["feed"][number]["events"] };
  record.events = record.events.map((event) => ({ ...event, ...change }));
}

type Planted = readonly [invariant: number, what: string, write: Write, bend?: Bend];

const planted: readonly Planted[] = [
  [1, "an acknowledged job is gone", (s) => s.live("a"), withSnapshot(() => ({ jobs: [], tallies: [] }))],
  [
    1,
    "the application was given an id that nobody has",
    (s) => void s.operations.push(enqueue({ seen: "ok", inputs: ['"a"'], got: ["a"] })),
  ],
  [2, "a job is there that nobody enqueued", (s) => (s.live("a"), s.operations.shift())],
  [
    3,
    "a job runs although its only enqueue failed",
    (s) => {
      s.live("a");
      Object.assign(s.operations[0] as object, { seen: "failed", answer: null, order: null });
    },
  ],
  [
    3,
    "the application was told that nothing happened",
    (s) => (s.live("a"), s.operations.push(enqueue({ seen: "failed", inputs: ['"a"'], got: null }))),
  ],
  [
    4,
    "a repeat makes the job a second time",
    (s) => (
      s.live("a"),
      s.tell({ kind: "submitted", id: "a", rev: 4, state: "ready", attempt: 0, extra: null })
    ),
  ],
  [
    5,
    "half of a batch is there",
    (s) => {
      s.submit({ id: "a" }, { id: "b" });
      s.jobs.delete("b");
      dropEvent(s, 0);
    },
  ],
  [
    7,
    "a job is kept that was removed",
    (s) => (
      s.live("a"),
      s.live("b"),
      s.tell({ kind: "removed", id: "a", rev: 4, state: null, attempt: 1, extra: null })
    ),
  ],
  [8, "a job waits for ever", (s) => s.submit({ id: "a" })],
  [
    9,
    "a fence is given twice",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.settle("a", "retry");
      s.job("a").fence = 0;
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    10,
    "two workers hold one fence",
    (s) => {
      s.submit({ id: "a" });
      const call = s.claim("a");
      s.operations.push({ ...call, request: { ...(call.request as object), owner: "w2" } } as never);
      s.settle("a", "completed");
    },
  ],
  [
    10,
    "a handler is run twice under one lease",
    (s) => {
      s.live("a");
      s.effects.push({ ...(s.effects[0] as Evidence["effects"][number]) });
    },
  ],
  [
    11,
    "a settle is applied twice",
    (s) => {
      s.live("a");
      s.operations.push({ ...(s.operations.at(-1) as Evidence["operations"][number]) });
    },
  ],
  [
    11,
    "a settle is called already applied, and never was",
    (s) => {
      s.submit({ id: "a" });
      s.claim("a");
      s.settle("a", "completed", { answer: "already" });
      s.change("a", "completed", "completed");
    },
  ],
  [
    12,
    "a progress write of a past attempt is accepted",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.settle("a", "retry");
      s.claim("a");
      s.call("recordIfLeased", [{ id: "a", seq: 1, fence: 1, progress: "1" }], ["ok"]);
      s.settle("a", "completed");
    },
  ],
  [
    12,
    "a settle of a past life is applied to the next one",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      s.change("a", "reclaimed", "ready");
      s.change("a", "removed", null);
      s.submit({ id: "a" });
      s.claim("a");
      s.job("a").seq = 1;
      s.settle("a", "completed");
      s.job("a").seq = 2;
    },
  ],
  [
    13,
    "a lease is taken away before its end",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 500;
      s.change("a", "reclaimed", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    13,
    "an extend that was acknowledged does not count",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 900;
      s.extend("a");
      s.now += 200;
      s.change("a", "reclaimed", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    14,
    "a late heartbeat brings a reclaimed lease back",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      s.change("a", "reclaimed", "ready");
      s.now += 1;
      s.extend("a");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [15, "a finished job is reclaimed", (s) => (s.live("a"), s.change("a", "reclaimed", "scheduled", 5000))],
  [
    16,
    "a lease is lost although nothing was wrong",
    (s) => {
      s.isFaultFree = true;
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      s.change("a", "reclaimed", "ready");
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    17,
    "a process takes a job from its own handler",
    (s) => {
      s.submit({ id: "a", ...twoAttempts });
      s.claim("a");
      s.now += 1500;
      const next = { to: "scheduled", event: "reclaimed" };
      s.call(
        "changeIf",
        [{ id: "a", cases: [{ guard: { states: ["running"], fence: 1 }, next }] }],
        [{ kind: "ok", applied: 0 }],
      );
      s.change("a", "reclaimed", "ready");
      s.now += 10;
      s.settle("a", "completed", { answer: "stale" });
      s.claim("a");
      s.settle("a", "completed");
    },
  ],
  [
    18,
    "a scheduled job ends without ever being claimed",
    (s) => {
      s.submit({ id: "a", due: { inMs: 100 } });
      s.change("a", "completed", "completed");
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
  [50, "the counts are wrong", (s) => s.live("a"), withSnapshot(() => ({ tallies: [] }))],
  [
    51,
    "a page of the feed is missing",
    (s) => s.live("a"),
    withSnapshot(({ feed }) => ({ feedByPages: feed.slice(1) })),
  ],
  [51, "an event of a job is missing", (s) => (s.live("a"), s.feed.splice(1, 1))],
  [51, "the feed's numbers go back", (s) => (s.live("a"), ((s.feed[1] as { number: number }).number = 1))],
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

describe("planted violations", () => {
  test.each([...planted])("invariant %i is found broken when %s", (...each) => {
    const [invariant, , write, bend] = each as unknown as Planted;
    expect(found(write, bend)).toContain(invariant);
  });

  test("every invariant that the checker knows has a planted violation", async () => {
    const { readFile, readdir } = await import("node:fs/promises");
    const folder = new URL(".", import.meta.url);
    const files = (await readdir(folder)).filter(
      (name) => name.startsWith("check-") && !name.includes(".test."),
    );
    const known = new Set<number>();
    for (const file of files) {
      const source = await readFile(new URL(file, folder), "utf8");
      for (const [, number] of source.matchAll(/invariant: (\d+)/g)) known.add(Number(number));
      if (source.includes("? 15 : 19")) known.add(15).add(19);
    }
    expect([...known].toSorted((left, right) => left - right)).toEqual(
      [...new Set(planted.map(([invariant]) => invariant))].toSorted((left, right) => left - right),
    );
  });
});

test("the story of a job has its spec, its events, its calls and its handlers", () => {
  const scribe = new Scribe();
  scribe.live("a");
  const story = tellStory(scribe.evidence(), "a");
  for (const part of [
    "job a",
    "spec",
    "submitted -> ready",
    "claimed #1 by w1",
    "settle #1 completed = ok",
    "handler #1 ended",
  ])
    expect(story).toContain(part);
});
