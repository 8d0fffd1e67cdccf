/** Planted violations of flows: invariants 40, 41, 43, 45, 52 and 58; and a flow that keeps them. */
import { everyEnd, bitsOf, writeEdge } from "../../../src/model/flow/edge.ts";
import { writeFreed } from "../../../src/model/flow/freed.ts";
import { newWaits } from "../../../src/model/flow/flow-waits.ts";
import { writeMeta } from "../../../src/model/job/job-meta.ts";
import { terminalStates } from "../../../src/model/job/job-state.ts";
import type { NewJob } from "../../../src/store/records.ts";
import type { Planted, Write } from "./planted.ts";
import type { Scribe } from "../scribe.ts";

const onSuccess = { meets: bitsOf("completed"), misses: everyEnd - bitsOf("completed") };
const part = { kind: "flow", failureMode: "isolate" } as const;
const freed = writeFreed({ due: { inMs: 0 }, rankBase: 0, rankSlope: 1, ttlMs: null });
const toFlow = writeEdge({ meets: everyEnd, misses: 0, target: "" });

type Spec = Partial<NewJob> & { readonly id: string };

/** A flow F of a and b, of which b comes after a. */
function submitFlow(s: Scribe): void {
  const shared = { flow: "F", freed };
  const parents = [writeEdge({ ...onSuccess, target: "a" })];
  const jobs: readonly Spec[] = [
    { id: "F", meta: writeMeta({ flow: { part } }), waits: newWaits({ need: 2, defers: 1, total: 2 }) },
    {
      id: "F.a",
      ...shared,
      edges: [toFlow, writeEdge({ ...onSuccess, target: "b" })],
      waits: newWaits({ need: 0 }),
    },
    {
      ...{ id: "F.b", ...shared, edges: [toFlow], waits: newWaits({ need: 1 }) },
      meta: writeMeta({ flow: { parents, wants: { need: 1, slack: 0 } } }),
    },
  ];
  s.submit(...jobs);
}

/** A flow F that is a map with a cap of 1 over two items. */
function submitMap(s: Scribe): void {
  const map = { kind: "group", tolerate: 0, concurrency: 1 } as const;
  const item = { flow: "F", freed, edges: [toFlow] };
  s.submit(
    { id: "F", meta: writeMeta({ flow: { part: map } }), waits: newWaits({ need: 1, defers: 1, total: 2 }) },
    { id: "F.0", ...item, waits: newWaits({ need: 0 }) },
    { id: "F.1", ...item, waits: newWaits({ need: 1 }) },
  );
}

function run(s: Scribe, id: string, end: "completed" | "failed" = "completed"): void {
  s.claim(id);
  s.settle(id, end, end === "failed" ? { reason: "unrecoverable" } : {});
}

/** What a store counts of the members of the flow. */
function count(s: Scribe): void {
  const states = [s.job("F.a").state, s.job("F.b").state];
  const ended = terminalStates.map((end) => states.filter((state) => state === end).length);
  s.job("F").waits = ["0,0,0,1,2", ...ended].join(",");
}

function endFlow(s: Scribe, to: "completed" | "cancelled" | "failed" = "completed"): void {
  count(s);
  s.change("F", to, to, to === "failed" ? "node-failed" : null);
}

const whole: Write = (s) => {
  submitFlow(s);
  run(s, "F.a");
  s.change("F.b", "freed", "ready");
  run(s, "F.b");
  endFlow(s);
};

export const trueFlows: Readonly<Record<string, Write>> = {
  "a flow of two": whole,
  "a flow whose second node is skipped": (s) => {
    submitFlow(s);
    run(s, "F.a", "failed");
    s.change("F.b", "skipped", "skipped", "unreachable");
    endFlow(s, "failed");
  },
  "a node that an operator runs again by its name": (s) => {
    whole(s);
    s.change("F.b", "replayed", "blocked");
    s.job("F.b").attempt = 0;
    s.change("F", "replayed", "blocked");
    s.change("F.b", "replayed", "ready");
    run(s, "F.b");
    endFlow(s);
  },
};

export const plantedFlows: readonly Planted[] = [
  [
    40,
    "a member is freed before what it comes after has ended",
    (s) => {
      submitFlow(s);
      s.change("F.b", "freed", "ready");
      run(s, "F.b");
      run(s, "F.a");
      endFlow(s);
    },
  ],
  [
    40,
    "a member is freed although what it comes after has failed",
    (s) => {
      submitFlow(s);
      run(s, "F.a", "failed");
      s.change("F.b", "freed", "ready");
      run(s, "F.b");
      endFlow(s, "failed");
    },
  ],
  [
    41,
    "a join is freed twice",
    (s) => {
      submitFlow(s);
      run(s, "F.a");
      s.change("F.b", "freed", "ready");
      run(s, "F.b");
      s.change("F.b", "freed", "ready");
      run(s, "F.b");
      endFlow(s);
    },
  ],
  [
    41,
    "a member is claimed that nothing freed",
    (s) => {
      submitFlow(s);
      run(s, "F.a");
      run(s, "F.b");
      endFlow(s);
    },
  ],
  [
    41,
    "a member that can never be freed is left blocked",
    (s) => {
      submitFlow(s);
      run(s, "F.a", "failed");
      s.job("F.b").waits = "1,-1,0,0";
    },
  ],
  [
    43,
    "the failure of a member is not counted",
    (s) => {
      submitFlow(s);
      run(s, "F.a", "failed");
      s.change("F.b", "skipped", "skipped", "unreachable");
      endFlow(s);
      s.job("F").waits = "0,0,0,1,2,1,0,0,0,1";
    },
  ],
  [
    45,
    "a member lives on in a flow that is cancelled",
    (s) => {
      submitFlow(s);
      run(s, "F.a");
      s.change("F.b", "freed", "ready");
      endFlow(s, "cancelled");
    },
  ],
  [
    58,
    "an item of a map is freed while the one before it runs",
    (s) => {
      submitMap(s);
      s.claim("F.0");
      s.change("F.1", "freed", "ready");
    },
  ],
  [52, "a member is deleted from a flow that is still there", (s) => (whole(s), s.remove("F.a"))],
];
