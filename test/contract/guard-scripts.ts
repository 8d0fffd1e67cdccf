/** What the vectors of the rules R2 (guard) and R3 (finish) ask. */
import {
  aChange,
  aDoc,
  aJob,
  aSettle,
  askCancel,
  finish,
  handBack,
  remove,
  replay,
  schedule,
} from "../support/builders.ts";
import type { DocCheck } from "../../src/store/records.ts";
import { startAt } from "../support/virtual/held-platform.ts";
import {
  submit,
  claim,
  lease,
  promote,
  due,
  settle,
  change,
  extend,
  keyed,
  running,
} from "./vector-calls.ts";
import type { Script } from "./vector-calls.ts";

const checked = (id: string, version: number): DocCheck => ({ kind: "kv", id, version });

export const guardScripts: readonly Script[] = [
  [
    "a unit is written while the documents that it checks have their versions",
    [0, "putDocs", [aDoc("d", "1"), aDoc("e", "1", { expiresInMs: 5 })]],
    [1, "submit", [{ jobs: [aJob({ id: "a" })], checks: [checked("d", 1), checked("e", 1)] }]],
    [2, "submit", [{ jobs: [aJob({ id: "b" })], checks: [checked("d", 1), checked("e", 2)] }]],
    [5, "submit", [{ jobs: [aJob({ id: "c" })], checks: [checked("e", 1)] }]],
    [6, "putDocs", [aDoc("d", "2", { guard: { version: 1 } })]],
    [7, "submit", [{ jobs: [aJob({ id: "d" })], checks: [checked("d", 1)] }]],
    [8, "submit", [{ jobs: [aJob({ id: "a" })], checks: [checked("d", 1)], isRepeat: true }]],
    [9, "submit", [{ jobs: [aJob({ id: "e" })], checks: [checked("d", 1)], isRepeat: true }]],
  ],
  [
    "a settle needs the fence and a running job",
    submit(0, aJob({ id: "a" })),
    settle(0, aSettle(lease("a", 1, 1), finish())),
    claim(0),
    settle(1, aSettle(lease("a", 1, 2), finish())),
    settle(1, running),
    settle(2, running),
  ],
  [
    "states, rev, fence and clock must all hold",
    submit(0, aJob({ id: "a" })),
    claim(0, { leaseMs: 10 }),
    change(9, aChange("a", ["running"], schedule(0), { rang: "lease" })),
    change(10, aChange("a", ["ready"], schedule(0), { rang: "lease" })),
    change(10, aChange("a", ["running"], schedule(0), { rang: "lease", rev: 1 })),
    change(10, aChange("a", ["running"], schedule(0), { rang: "lease", rev: 2, fence: 9 })),
    change(10, aChange("a", ["running"], schedule(0), { rang: "lease", rev: 2, fence: 1 })),
    change(10, aChange("ghost", ["running"], schedule(0))),
  ],
  [
    "the first case that holds is applied",
    submit(0, aJob({ id: "a" })),
    claim(0),
    [
      1,
      "changeIf",
      [
        {
          id: "a",
          cases: [
            ...aChange("a", ["ready"], remove).cases,
            ...aChange("a", ["running"], askCancel).cases,
            ...aChange("a", ["running"], finish()).cases,
          ],
        },
      ],
    ],
    extend(2, [lease("a", 1, 1)]),
  ],
  [
    "a document needs its version",
    [
      0,
      "putDocs",
      [
        aDoc("d", "1", { guard: "absent" }),
        aDoc("d", "2", { guard: "absent" }),
        aDoc("d", "3", { guard: { version: 1 } }),
        aDoc("d", "4", { guard: { version: 1 } }),
      ],
    ],
    [0, "readDocs", { kind: "kv", ids: ["d"] }],
  ],
  [
    "a document is due at its instant or after its time, and a put without one is due no more",
    [
      0,
      "putDocs",
      [aDoc("d", "1", { due: { inMs: 5 } }), aDoc("e", "1", { due: { at: startAt + 3 } }), aDoc("f", "1")],
    ],
    [2, "promoteDue", { max: 10 }],
    [3, "readDueDocs", { max: 10, cursor: null }],
    [5, "readDueDocs", { max: 10, cursor: null }],
    [6, "putDocs", [aDoc("e", "2")]],
    [7, "readDueDocs", { max: 10, cursor: null }],
  ],
  [
    "an expired document is absent",
    [0, "putDocs", [aDoc("d", "1", { expiresInMs: 5 })]],
    [4, "putDocs", [aDoc("d", "2", { guard: "absent" })]],
    [5, "putDocs", [aDoc("d", "3", { guard: { version: 1 } }), aDoc("d", "4", { guard: "absent" })]],
  ],
  [
    "once a cancel was asked, a running job may end but not wait again",
    submit(0, aJob({ id: "a" })),
    claim(0),
    change(1, aChange("a", ["running"], askCancel)),
    settle(2, aSettle(lease("a", 1, 1), handBack), aSettle(lease("a", 1, 1), schedule(5))),
    settle(3, running, running),
  ],
  [
    "a lease names the life of its job: with another seq it is stale",
    submit(0, aJob({ id: "a", digest: "d" })),
    claim(0),
    settle(1, aSettle(lease("a", 1, 1), finish("completed", { keepMs: 0 }))),
    submit(2, aJob({ id: "a", digest: "d" })),
    claim(2),
    settle(3, running),
    extend(3, [lease("a", 1, 1), lease("a", 2, 1)]),
    settle(4, aSettle(lease("a", 2, 1), finish())),
  ],
];

export const finishScripts: readonly Script[] = [
  [
    "a finished job leaves its lease and keeps its record",
    submit(0, aJob({ id: "a", tags: ["t"], ttlMs: 50 })),
    claim(1),
    settle(2, aSettle(lease("a", 1, 1), finish("failed", { reason: "r", keepMs: 9 }), { attempts: "log" })),
    claim(3),
    due(5000, "lease"),
    [5000, "prune", { what: "kept", max: 5 }],
  ],
  [
    "a result that is kept for a shorter time than its job goes alone",
    submit(0, aJob({ id: "a" })),
    claim(1),
    settle(2, aSettle(lease("a", 1, 1), finish("completed", { result: "42", keepResultMs: 9 }))),
    [10, "prune", { what: "kept", max: 5 }],
    [11, "prune", { what: "kept", max: 5 }],
    settle(12, running),
  ],
  [
    "kept for no time: only the event remains",
    submit(0, keyed("a")),
    claim(0),
    settle(1, aSettle(lease("a", 1, 1), finish("completed", { keepMs: 0 }))),
    settle(1, running),
    submit(2, keyed("b")),
  ],
  [
    "every end frees a key held until the end",
    submit(0, keyed("a")),
    change(1, aChange("a", ["ready"], finish("expired"))),
    submit(2, keyed("b")),
    claim(2),
    change(3, aChange("b", ["running"], finish("failed"))),
    submit(4, keyed("c")),
  ],
  [
    "an end before the first claim frees a key held until the start",
    submit(0, keyed("a", { hold: "started" })),
    change(1, aChange("a", ["ready"], finish("cancelled"))),
    submit(2, keyed("b")),
  ],
  [
    "a key held by time outlives the job",
    submit(0, keyed("a", { hold: 50 })),
    change(1, aChange("a", ["ready"], finish("cancelled"))),
    submit(49, keyed("b")),
    submit(50, keyed("c")),
  ],
  [
    "follow-ups and documents come with the end or not at all",
    submit(0, aJob({ id: "a" })),
    claim(0),
    settle(
      1,
      aSettle(lease("a", 1, 1), finish(), {
        effects: { jobs: [aJob({ id: "b" })], docs: [aDoc("d", "1", { guard: { version: 2 } })] },
      }),
    ),
    settle(
      2,
      aSettle(lease("a", 1, 1), finish(), {
        effects: { jobs: [aJob({ id: "b" })], docs: [aDoc("d", "1", { guard: "absent" })] },
      }),
    ),
  ],
  [
    "a replay undoes the end and only the end",
    submit(0, keyed("a", {}, { deadline: { inMs: 3 } })),
    claim(0),
    settle(1, aSettle(lease("a", 1, 1), finish("failed"), { attempts: "log" })),
    change(5, aChange("a", ["failed"], replay(4))),
    submit(6, keyed("b")),
    promote(9),
    claim(9),
    settle(10, running),
  ],
  [
    "a replay whose key is held is refused",
    submit(0, keyed("a")),
    change(1, aChange("a", ["ready"], finish("failed"))),
    submit(2, keyed("b")),
    change(3, aChange("a", ["failed"], replay())),
  ],
];
