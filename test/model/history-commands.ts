/**
 * The commands that random histories are made of: plain data, so that fast-check can shrink and print them. Jobs,
 * leases and units are named by number; the world that runs a history (history-world.ts) takes the number modulo what
 * there is.
 */
import fc from "fast-check";
import { durableMarks } from "../../src/model/durable/durable-marks.ts";
import type { TerminalState } from "../../src/model/job/job-state.ts";
import { terminalStates } from "../../src/model/job/job-state.ts";
import type { OnHeld, UniqueHold } from "../../src/model/job/unique-key.ts";
import type { Clock } from "../../src/store/operations.ts";

export interface JobShape {
  /** Null mints an id; a number is one of a few caller-given ids. */
  readonly given: number | null;
  readonly digest: number;
  readonly queue: number;
  /** Which capabilities it asks for (history-world.ts); null for none. */
  readonly requires: number | null;
  readonly name: number;
  readonly dueInMs: number;
  readonly isInstant: boolean;
  readonly level: number;
  readonly slope: 1 | -1;
  readonly ttlMs: number | null;
  readonly deadlineInMs: number | null;
  readonly unique: { readonly key: number; readonly hold: UniqueHold; readonly onHeld: OnHeld } | null;
  readonly tag: number | null;
  /** Which gates it has; 0 for none. */
  readonly gates: number;
  /** Which lane it stands in (history-world.ts); 0 for none. */
  readonly lane: number;
  readonly policy: number;
  readonly isLarge: boolean;
}

export interface DocShape {
  readonly id: number;
  readonly isDelete: boolean;
  /** -1 any, -2 absent, else that version. */
  readonly guard: number;
  readonly expiresInMs: number | null;
  /** A document with a due time does not expire. */
  readonly dueInMs: number | null;
  /** It adds; of the others only when it expires counts then. */
  readonly add: AddShape | null;
}

export interface AddShape {
  readonly by: number;
  readonly ceiling: number | null;
  readonly marks: readonly number[];
  /** The document that is left if a mark is passed; it is a counter, too. */
  readonly leaves: number | null;
}

export interface UnitShape {
  readonly jobs: readonly JobShape[];
  readonly docs: readonly DocShape[];
  /** Effects have none. */
  readonly checks?: readonly CheckShape[];
}

export interface CheckShape {
  readonly id: number;
  readonly version: number;
}

export interface EffectShape {
  readonly jobs: readonly JobShape[];
  readonly docs: readonly DocShape[];
}

export type NextShape =
  | {
      readonly to: "finish";
      readonly outcome: TerminalState;
      readonly keepMs: number | null;
      readonly keepResultMs: number | null;
      readonly keepsLane: boolean;
    }
  | {
      readonly to: "retry";
      readonly inMs: number;
      readonly counts: 0 | 1;
      readonly ttlMs: number | null;
      readonly keepsLane: boolean;
      /** The journal begins a new round. */
      readonly isAnew?: true;
    }
  | { readonly to: "hand-back" }
  | {
      readonly to: "suspend";
      readonly wakeInMs: number | null;
      readonly isInstant: boolean;
      readonly counts: 0 | 1;
      readonly attempt: number | null;
      readonly keepsLane: boolean;
    };

/** An entry: an own one has a key of another list than a signal, most of the time. */
export interface EntryShape {
  readonly key: number;
  readonly marks: number;
  /** Its size as long as nobody has read it; 0 for none. */
  readonly unread: number;
  readonly reads: readonly number[];
  readonly isLarge: boolean;
}

/** What a settle of a durable run says of its journal. */
export interface SettledJournal {
  /** Added to the last number that the journal has; null looks at none. */
  readonly seenShift: number | null;
  readonly entries: readonly EntryShape[];
}

export type ChangeKind =
  | "cancel"
  | "reschedule"
  | "replay"
  | "remove"
  | "edit"
  | "rank"
  | "revoke"
  | "no-handler"
  | "restart"
  | "resume"
  | "end";

/**
 * To a live job; to one that has ended, too; to a suspended one alone; as what begins its ending; together with its
 * end.
 */
export type SignalKind = "live" | "any" | "suspended" | "ending" | "cancel";

export type Command =
  | { readonly do: "advance"; readonly ms: number }
  | { readonly do: "submit"; readonly units: readonly UnitShape[] }
  | { readonly do: "repeat"; readonly unit: number }
  | {
      readonly do: "claim";
      readonly owner: number;
      readonly leaseMs: number;
      readonly offers: readonly {
        routes: number[];
        gates: number;
        lanes: number;
        max: number;
        starts: number;
      }[];
    }
  | { readonly do: "heartbeat"; readonly docs: readonly DocShape[] }
  | {
      readonly do: "settle";
      readonly settles: readonly {
        lease: number;
        fenceShift: number;
        next: NextShape;
        effects: EffectShape | null;
        journal?: SettledJournal;
      }[];
    }
  | {
      readonly do: "extend";
      readonly owner: number;
      readonly leases: readonly {
        lease: number;
        startedAgoMs: number | null;
        attemptEndsInMs: number | null;
        /** Added to the last number that its journal has. */
        seenShift?: number | null;
      }[];
      readonly wantsOthers: boolean;
    }
  | { readonly do: "record"; readonly lease: number; readonly logs: number; readonly hasProgress: boolean }
  | {
      readonly do: "frames";
      readonly writes: readonly {
        readonly lease: number;
        /** By how much each chunk's number is above the one before. */
        readonly steps: readonly number[];
        /** The last write of the lease is repeated. */
        readonly isRepeat: boolean;
        readonly summary: string | null;
        readonly restarts: boolean;
        readonly drops: number | null;
      }[];
    }
  | {
      readonly do: "change";
      readonly changes: readonly { job: number; kind: ChangeKind; revShift: number | null; inMs: number }[];
    }
  | {
      /** A plain job is submitted, and the first ones of its route are claimed: a run to do something with. */
      readonly do: "begin";
      readonly owner: number;
      /** By rank, by turn, or none. */
      readonly lane: 0 | 1 | 3;
      readonly deadlineInMs: number | null;
      readonly max: number;
    }
  | {
      readonly do: "entries";
      readonly writes: readonly {
        lease: number;
        fenceShift: number;
        entries: readonly EntryShape[];
        effects: EffectShape | null;
        hasProgress: boolean;
        setsBack: boolean;
        steps: readonly string[];
      }[];
    }
  | {
      readonly do: "signal";
      readonly signals: readonly {
        job: number;
        /** Of those that were claimed. */
        isOfRun: boolean;
        entry: EntryShape;
        as: SignalKind;
        isBounded: boolean;
      }[];
    }
  | {
      readonly do: "journal";
      readonly reads: readonly { job: number; lease: number | null; after: number; max: number }[];
    }
  | { readonly do: "promote"; readonly max: number }
  | { readonly do: "duty"; readonly clock: Clock; readonly max: number }
  | {
      readonly do: "gate";
      readonly key: number;
      /** -1 any, else that version. */
      readonly guard: number;
      readonly cap: number | null;
      readonly stepUs: number | null;
      readonly closedInMs: number | null;
      readonly isIntakeClosed: boolean;
      readonly emptiesRate: boolean;
    }
  | { readonly do: "put"; readonly docs: readonly DocShape[] }
  | { readonly do: "prune"; readonly what: number; readonly olderThanMs: number; readonly max: number }
  | { readonly do: "look"; readonly filter: number; readonly max: number; readonly scanMax: number };

const some = fc.oneof(fc.nat(2), fc.nat(12));
const fewMs = fc.constantFrom(0, 1, 5, 20, 50, 200);
const maybe = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | null> =>
  fc.option(value, { nil: null, freq: 2 });
/** Once in five. */
const rarely = <Value, None>(value: fc.Arbitrary<Value>, none: None): fc.Arbitrary<Value | None> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(none) }, { weight: 1, arbitrary: value });
const few = <Value>(value: fc.Arbitrary<Value>, maxLength: number): fc.Arbitrary<Value[]> =>
  fc.array(value, { minLength: 1, maxLength });

const job: fc.Arbitrary<JobShape> = fc.record({
  given: fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.nat(3) }),
  digest: fc.nat(1),
  queue: fc.nat(1),
  requires: rarely(fc.nat(2), null),
  name: fc.nat(1),
  dueInMs: fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fewMs },
    { weight: 1, arbitrary: fc.constant(-30) },
  ),
  isInstant: fc.boolean(),
  level: fc.constantFrom(-1, 0, 0, 1),
  slope: fc.constantFrom(1, 1, 1, -1),
  ttlMs: rarely(fewMs, null),
  deadlineInMs: rarely(fewMs, null),
  unique: maybe(
    fc.record({
      key: fc.nat(1),
      hold: fc.constantFrom<UniqueHold>("started", "end", 20, 200),
      onHeld: fc.constantFrom<OnHeld>("keep", "replace"),
    }),
  ),
  tag: maybe(fc.nat(2)),
  gates: fc.constantFrom(0, 0, 0, 1, 2),
  lane: fc.constantFrom(0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8),
  policy: fc.nat(2),
  isLarge: fc.boolean(),
});

const add: fc.Arbitrary<AddShape> = fc.record({
  by: fc.constantFrom(1, 1, 2, 5, 5, 0, -1, -3, Number.MAX_SAFE_INTEGER),
  ceiling: fc.constantFrom(null, 0, 2, 4),
  marks: fc.constantFrom([], [1], [2, 4], [5]),
  leaves: maybe(fc.nat(2)),
});

export const docShape: fc.Arbitrary<DocShape> = fc.record({
  id: fc.nat(2),
  isDelete: fc.constantFrom(false, false, true),
  guard: fc.constantFrom(-1, -1, -2, 0, 1, 2),
  expiresInMs: maybe(fewMs),
  dueInMs: maybe(fewMs),
  add: fc.oneof(fc.constant(null), add),
});

const check: fc.Arbitrary<CheckShape> = fc.record({
  id: fc.nat(2),
  version: fc.constantFrom(1, 1, 1, 2, 3),
});

const effects: fc.Arbitrary<EffectShape> = fc.record({
  jobs: fc.array(job, { maxLength: 2 }),
  docs: fc.array(docShape, { maxLength: 2 }),
});

const next: fc.Arbitrary<NextShape> = fc.oneof(
  fc.record({
    to: fc.constant("finish" as const),
    outcome: fc.constantFrom(...terminalStates),
    keepMs: fc.constantFrom(null, null, 0, 30),
    keepResultMs: fc.constantFrom(null, null, 0, 5),
    keepsLane: fc.boolean(),
  }),
  fc.record({
    to: fc.constant("retry" as const),
    inMs: fewMs,
    counts: fc.constantFrom(0, 1),
    ttlMs: maybe(fewMs),
    keepsLane: fc.boolean(),
  }),
  fc.constant({ to: "hand-back" as const }),
);

const changeKind = fc.constantFrom<ChangeKind>(
  "cancel",
  "reschedule",
  "replay",
  "replay",
  "remove",
  "edit",
  "rank",
  "revoke",
  "no-handler",
);

/** A command of this kind, with these parts. */
const does = <Kind extends Command["do"], Parts>(
  kind: Kind,
  parts: { [Key in keyof Parts]: fc.Arbitrary<Parts[Key]> },
): fc.Arbitrary<Parts & { do: Kind }> =>
  fc.record({ do: fc.constant(kind), ...parts }) as unknown as fc.Arbitrary<Parts & { do: Kind }>;

const entry: fc.Arbitrary<EntryShape> = fc.record({
  key: fc.nat(7),
  marks: fc.constantFrom(0, 0, 0, durableMarks.hasUndo, durableMarks.isEnding, durableMarks.hasChildren),
  unread: fc.constantFrom(0, 1, 1, 3),
  reads: rarely(fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 3 }), []),
  isLarge: rarely(fc.constant(true), false),
});

const settledJournal: fc.Arbitrary<SettledJournal> = fc.record({
  seenShift: fc.constantFrom(0, 0, 0, 0, null, -1, 1),
  entries: fc.array(entry, { maxLength: 2 }),
});

const durableNext: fc.Arbitrary<NextShape> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      to: fc.constant("suspend" as const),
      wakeInMs: maybe(fewMs),
      isInstant: fc.boolean(),
      counts: fc.constantFrom(0, 1),
      attempt: fc.constantFrom(null, null, 0),
      keepsLane: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      to: fc.constant("retry" as const),
      inMs: fewMs,
      counts: fc.constantFrom(0, 1),
      ttlMs: fc.constant(null),
      keepsLane: fc.boolean(),
      isAnew: fc.constant(true as const),
    }),
  },
  { weight: 2, arbitrary: next },
);

/** What durable runs do and what is done to them. */
const durableCommand: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: does("begin", {
      owner: fc.nat(1),
      lane: fc.constantFrom(0, 0, 0, 1, 3),
      deadlineInMs: rarely(fewMs, null),
      max: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: does("entries", {
      writes: few(
        fc.record({
          lease: some,
          fenceShift: fc.constantFrom(0, 0, 0, 0, 1, -1),
          entries: fc.array(entry, { maxLength: 3 }),
          effects: rarely(effects, null),
          hasProgress: fc.boolean(),
          setsBack: rarely(fc.constant(true), false),
          steps: rarely(fc.array(fc.constantFrom("s", "t"), { maxLength: 2 }), []),
        }),
        3,
      ),
    }),
  },
  {
    weight: 5,
    arbitrary: does("settle", {
      settles: few(
        fc.record({
          lease: some,
          fenceShift: fc.constantFrom(0, 0, 0, 0, 0, 1),
          next: durableNext,
          effects: rarely(effects, null),
          journal: settledJournal,
        }),
        3,
      ),
    }),
  },
  {
    weight: 3,
    arbitrary: does("signal", {
      signals: few(
        fc.record({
          job: some,
          isOfRun: fc.constantFrom(true, true, false),
          entry,
          as: fc.constantFrom<SignalKind>("live", "live", "live", "any", "suspended", "ending", "cancel"),
          isBounded: fc.boolean(),
        }),
        3,
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: does("change", {
      changes: few(
        fc.record({
          job: some,
          kind: fc.constantFrom<ChangeKind>("restart", "resume", "end"),
          revShift: maybe(fc.constantFrom(0, 0, 1)),
          inMs: fewMs,
        }),
        3,
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: does("extend", {
      owner: fc.nat(1),
      leases: few(
        fc.record({
          lease: some,
          startedAgoMs: fc.constant(null),
          attemptEndsInMs: fc.constant(null),
          seenShift: fc.constantFrom(null, 0, -1, -2, 1),
        }),
        3,
      ),
      wantsOthers: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: does("journal", {
      reads: few(
        fc.record({ job: some, lease: maybe(some), after: fc.nat(4), max: fc.integer({ min: 1, max: 4 }) }),
        3,
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: does("duty", {
      clock: fc.constantFrom<Clock>("wake", "wake", "lease"),
      max: fc.integer({ min: 1, max: 3 }),
    }),
  },
);

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: does("submit", {
      units: few(
        fc.record({
          jobs: few(job, 3),
          docs: rarely(few(docShape, 2), []),
          checks: rarely(few(check, 2), []),
        }),
        2,
      ),
    }),
  },
  { weight: 1, arbitrary: does("repeat", { unit: some }) },
  {
    weight: 2,
    arbitrary: does("gate", {
      key: fc.nat(5),
      guard: fc.constantFrom(-1, -1, 0, 1),
      cap: fc.constantFrom(null, 1, 2, 4),
      stepUs: rarely(fc.constantFrom(700, 5000), null),
      closedInMs: rarely(fc.constantFrom(5, 50, -1), null),
      isIntakeClosed: rarely(fc.constant(true), false),
      emptiesRate: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: does("advance", { ms: fewMs }) },
  {
    weight: 5,
    arbitrary: does("claim", {
      owner: fc.nat(1),
      leaseMs: fc.constantFrom(10, 100, 1000),
      offers: few(
        fc.record({
          routes: few(fc.nat(15), 3),
          gates: fc.constantFrom(0, 0, 1, 2),
          lanes: fc.constantFrom(0, 0, 1, 2),
          max: fc.integer({ min: 1, max: 4 }),
          starts: fc.nat(4),
        }),
        2,
      ),
    }),
  },
  {
    weight: 5,
    arbitrary: does("settle", {
      settles: few(
        fc.record({
          lease: some,
          fenceShift: fc.constantFrom(0, 0, 0, 0, 1, -1),
          next,
          effects: rarely(effects, null),
        }),
        3,
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: does("extend", {
      owner: fc.nat(1),
      leases: fc.array(
        fc.record({ lease: some, startedAgoMs: maybe(fewMs), attemptEndsInMs: maybe(fewMs) }),
        { maxLength: 3 },
      ),
      wantsOthers: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: does("frames", {
      writes: fc.array(
        fc.record({
          lease: some,
          steps: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 3 }),
          isRepeat: fc.boolean(),
          summary: maybe(fc.constantFrom("", "s", "t")),
          restarts: fc.boolean(),
          drops: maybe(fc.nat(4)),
        }),
        { minLength: 1, maxLength: 2 },
      ),
    }),
  },
  { weight: 1, arbitrary: does("record", { lease: some, logs: fc.nat(2), hasProgress: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: does("change", {
      changes: few(
        fc.record({ job: some, kind: changeKind, revShift: maybe(fc.constantFrom(0, 0, 1)), inMs: fewMs }),
        3,
      ),
    }),
  },
  { weight: 2, arbitrary: does("promote", { max: fc.integer({ min: 1, max: 5 }) }) },
  {
    weight: 3,
    arbitrary: does("duty", {
      clock: fc.constantFrom<Clock>("lease", "attempt", "deadline", "ttl"),
      max: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: does("put", { docs: few(docShape, 3) }) },
  { weight: 1, arbitrary: does("heartbeat", { docs: few(docShape, 2) }) },
  {
    weight: 1,
    arbitrary: does("prune", { what: fc.nat(8), olderThanMs: fewMs, max: fc.integer({ min: 1, max: 3 }) }),
  },
  {
    weight: 1,
    arbitrary: does("look", {
      filter: fc.nat(9),
      max: fc.integer({ min: 1, max: 5 }),
      scanMax: fc.integer({ min: 1, max: 9 }),
    }),
  },
);

const anyCommand = fc.oneof({ weight: 3, arbitrary: command }, { weight: 1, arbitrary: durableCommand });

export const histories = (commandsMax: number): fc.Arbitrary<Command[]> =>
  fc.array(anyCommand, { maxLength: commandsMax, size: "max" });
