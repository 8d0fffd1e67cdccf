/** What the vectors of the rules R1 (clock) and R2 (guard) ask about journals and suspended jobs. */
import type { Settle } from "../../src/store/operations.ts";
import type { EntryPut, FramesPut, LeaseRef } from "../../src/store/records.ts";
import type { Suspend } from "../../src/model/job/change.ts";
import { aChange, aJob, aSettle, askCancel, finish, replay, schedule } from "../support/builders.ts";
import {
  anAppend,
  anEntry,
  aRecord,
  aSignal,
  hasUndo,
  isEnding,
  resume,
  signalled,
  suspend,
} from "./cases/durable/journal-calls.ts";
import { change, claim, due, extend, lease, settle, submit } from "./vector-calls.ts";
import type { Call, Script } from "./vector-calls.ts";

const record = (afterMs: number, ...writes: readonly ReturnType<typeof aRecord>[]): Call => [
  afterMs,
  "recordIfLeased",
  writes,
];
const journal = (afterMs: number, id = "a"): Call => [afterMs, "readJournal", [{ id, after: 0, max: 99 }]];
const waits = (
  fence: number,
  seen: number | null,
  given: Partial<Suspend> = {},
  ...entries: readonly EntryPut[]
): Settle => aSettle(lease("a", 1, fence), suspend(given), { journal: { seen, entries } });
const held: LeaseRef = lease("a", 1, 1);
const wakes = aChange("a", ["suspended"], resume, { rang: "wake" });

const frames = (afterMs: number, fence: number, put: FramesPut): Call => [
  afterMs,
  "recordIfLeased",
  [{ ...lease("a", 1, fence), frames: put }],
];
const output = (afterMs: number): Call => [
  afterMs,
  "readFrames",
  [
    { id: "a", after: { fence: 0, number: 0 }, max: 9 },
    { id: "a", after: { fence: 1, number: 2 }, max: 1 },
    { id: "a", after: null, max: 1 },
  ],
];

/** Of R2: the output of a job. */
export const frameScripts: readonly Script[] = [
  [
    "a chunk of output is written once per attempt and number, under the current fence alone",
    submit(0, aJob({ id: "a" })),
    output(0),
    claim(1),
    frames(2, 1, { chunks: [{ number: 2, body: "one" }], summary: "s", restarts: true }),
    frames(3, 1, {
      chunks: [
        { number: 2, body: "other" },
        { number: 3, body: "two" },
      ],
    }),
    output(3),
    settle(4, aSettle(lease("a", 1, 1), schedule(0))),
    claim(5),
    frames(6, 1, { chunks: [{ number: 4, body: "stale" }], dropsTo: { fence: 1, number: 9 } }),
    frames(6, 2, { chunks: [{ number: 1, body: "three" }] }),
    output(7),
    frames(8, 2, { chunks: [{ number: 2, body: "four" }], dropsTo: { fence: 1, number: 2 } }),
    output(8),
    frames(9, 2, { chunks: [{ number: 3, body: "five" }], restarts: true }),
    settle(9, aSettle(lease("a", 1, 2), finish())),
    output(9),
  ],
];

/** Of R1. */
export const wakeScripts: readonly Script[] = [
  [
    "a suspended job keeps rank and due time, and its time-to-live is when it wakes",
    submit(0, aJob({ id: "a", rankBase: 3, deadline: { inMs: 90 } })),
    claim(1),
    settle(5, waits(1, 0, { wake: { inMs: 40 } })),
    due(44, "wake"),
    change(44, wakes),
    due(45, "wake"),
    due(45, "ttl"),
    change(45, wakes),
    due(60, "ttl"),
    claim(60),
    journal(60),
  ],
  [
    "the earliest clock of a suspended job: its wake time or its deadline",
    submit(0, aJob({ id: "a", deadline: { inMs: 20 } })),
    claim(0),
    settle(1, waits(1, null, { wake: { inMs: 30 }, attempt: 0 })),
    due(20, "deadline"),
    due(31, "deadline"),
    due(31, "wake"),
    change(32, anAppend("a", aSignal("s"))),
    due(32, "wake"),
    due(32, "deadline"),
    journal(32),
  ],
];

/** Of R2. */
export const journalScripts: readonly Script[] = [
  [
    "an entry is appended once by its key",
    submit(0, aJob({ id: "a" })),
    claim(0),
    record(1, aRecord(held, anEntry("1"), anEntry("2"), anEntry("1"))),
    record(2, aRecord(held, anEntry("2", { body: "x", marks: hasUndo }), anEntry("3", { marks: hasUndo }))),
    record(3, aRecord(lease("a", 1, 2), anEntry("4")), aRecord(lease("a", 2, 1), anEntry("5"))),
    journal(4),
  ],
  [
    "the key of another's entry is known before its guard, and unread entries have their room",
    submit(0, aJob({ id: "a" })),
    claim(0),
    change(1, anAppend("a", aSignal("s"), { count: 2, size: 9 })),
    change(2, anAppend("a", aSignal("t", { unread: 9 }), { count: 2, size: 9 })),
    change(3, anAppend("a", aSignal("u", { unread: 8 }), { count: 2, size: 9 })),
    change(4, anAppend("a", aSignal("v"), { count: 2, size: 9 }), anAppend("a", anEntry("w"))),
    record(5, aRecord(held, anEntry("takes u", { reads: [2] }))),
    change(6, anAppend("a", aSignal("v"), { count: 2, size: 9 })),
    settle(7, aSettle(held, finish(), { journal: { seen: null, entries: [anEntry("end")] } })),
    change(8, anAppend("a", aSignal("s")), anAppend("a", aSignal("x")), anAppend("a", anEntry("end"))),
    journal(9),
  ],
  [
    "a settle names the last number that was seen",
    submit(0, aJob({ id: "a" })),
    claim(0),
    change(1, anAppend("a", aSignal("s"))),
    extend(1, [{ ...held, seen: 0 }]),
    settle(2, waits(1, 0), waits(1, 2)),
    settle(3, waits(1, 1, {}, anEntry("opened"))),
    settle(4, waits(1, 1, {}, anEntry("opened"))),
    change(5, anAppend("a", aSignal("t"))),
    claim(6),
    settle(7, waits(2, 3)),
    journal(8),
  ],
  [
    "the mark of an ending clears a deadline and a requested cancel, and guards know the marks",
    submit(0, aJob({ id: "a", deadline: { inMs: 9 } })),
    claim(0),
    change(1, aChange("a", ["running"], askCancel)),
    settle(2, waits(1, 0)),
    change(
      3,
      aChange("a", ["running"], signalled, { marks: { mask: hasUndo | isEnding, is: hasUndo } }),
      aChange("a", ["running"], signalled, { marks: { mask: hasUndo | isEnding, is: 0 } }),
    ),
    record(4, aRecord(held, anEntry("1", { marks: hasUndo }))),
    change(5, {
      id: "a",
      cases: [
        {
          guard: { states: ["running"], marks: { mask: hasUndo | isEnding, is: hasUndo } },
          next: signalled,
          append: { entry: anEntry("ending", { marks: isEnding }) },
        },
      ],
    }),
    due(9, "deadline"),
    settle(10, waits(1, 2)),
    journal(11),
  ],
  [
    "a new round keeps what nobody has read, and refuses what it has heard",
    submit(0, aJob({ id: "a" })),
    claim(0),
    record(1, aRecord(held, anEntry("own", { marks: hasUndo }))),
    change(
      2,
      ...[aSignal("s"), anEntry("end"), aSignal("t"), aSignal("u")].map((entry) => anAppend("a", entry)),
    ),
    record(3, aRecord(held, anEntry("takes s", { reads: [2] }))),
    settle(4, aSettle(held, schedule(0, { newRound: true }), { journal: { seen: 6, entries: [] } })),
    journal(4),
    change(5, ...["s", "end", "t"].map((key) => anAppend("a", anEntry(key)))),
    claim(6),
    record(7, aRecord(lease("a", 1, 2), anEntry("own"), anEntry("takes t", { reads: [1] }))),
    settle(8, aSettle(lease("a", 1, 2), finish("failed"))),
    change(9, aChange("a", ["failed"], replay(0, { newRound: true }))),
    journal(9),
  ],
  [
    "a run that has got further counts its attempts anew",
    submit(0, aJob({ id: "a" })),
    claim(0),
    settle(1, aSettle(held, schedule(0), { attempts: "log" })),
    claim(2),
    record(3, { ...aRecord(lease("a", 1, 2), anEntry("1")), setsBack: true }),
    journal(3),
  ],
  [
    "a run that has got further keeps the log of a requested cancel",
    submit(0, aJob({ id: "a" })),
    claim(0),
    change(1, {
      id: "a",
      cases: [{ guard: { states: ["running"] }, next: askCancel, attempts: "why" }],
    }),
    record(2, { ...aRecord(held, anEntry("1")), setsBack: true }),
    journal(2),
  ],
];
