/** Small flows for the contract cases: members are named by letters, and the flow is "F". */
import type { Block } from "../../../src/model/job/change.ts";
import { bitsOf, everyEnd, writeEdge } from "../../../src/model/flow/edge.ts";
import { writeFreed } from "../../../src/model/flow/freed.ts";
import { newWaits } from "../../../src/model/flow/flow-waits.ts";
import type { LeasedJob, NewJob } from "../../../src/store/records.ts";
import type { Store } from "../../../src/store/store.ts";
import { aClaim, aJob, aSettle, finish } from "../../support/builders.ts";

export const onSuccess = { meets: bitsOf("completed"), misses: everyEnd - bitsOf("completed") };
export const onFailure = { meets: bitsOf("failed"), misses: everyEnd - bitsOf("failed") };
export const always = { meets: everyEnd, misses: 0 };
/** Every end is waited for, and what is no success is one too many. */
export const tolerated = { meets: everyEnd, misses: everyEnd - bitsOf("completed") };
/** To the flow, where the first failure is one too many. */
const failingFast = { meets: everyEnd, misses: bitsOf("failed", "expired") };

export const edgeTo = (target: string, masks = onSuccess): string => writeEdge({ ...masks, target });

/** The flow itself: blocked until its members have ended. */
export function aFlow(total: number, given: Partial<NewJob> & { readonly need?: number } = {}): NewJob {
  const { need = total, ...rest } = given;
  return aJob({ id: "F", queue: "flows", waits: newWaits({ need, defers: 1, total }), ...rest });
}

interface Member extends Partial<NewJob> {
  readonly need?: number;
  readonly slack?: number;
  readonly defers?: 1;
  /** Behind the edge to its flow, which every member has. */
  readonly to?: readonly string[];
  readonly failsFast?: true;
}

export function aMember(name: string, given: Member = {}): NewJob {
  const { need = 0, slack, defers, to = [], failsFast, ...rest } = given;
  const job = aJob({ id: `F.${name}`, ...rest });
  const { due, rankBase, rankSlope, ttlMs } = job;
  const { flow = "F" } = rest;
  return {
    ...job,
    flow,
    edges: [edgeTo("", failsFast === true ? failingFast : always), ...to],
    freed: writeFreed({ due, rankBase, rankSlope, ttlMs }),
    waits: newWaits({
      need,
      ...(slack === undefined ? {} : { slack }),
      ...(defers === undefined ? {} : { defers }),
    }),
    ...rest,
  };
}

/** a then b then c. */
export const chain: readonly NewJob[] = [
  aFlow(3),
  aMember("a", { to: [edgeTo("b")] }),
  aMember("b", { need: 1, to: [edgeTo("c")] }),
  aMember("c", { need: 1 }),
];

export function block(given: Partial<Block> = {}): Block {
  return { to: "blocked", event: "replayed", parents: [], waits: null, ...given };
}

/** Claims all that is ready and ends it: as completed, but for those that are named here. */
export async function runReady(
  store: Store,
  ends: Readonly<Record<string, "completed" | "failed">> = {},
): Promise<readonly string[]> {
  const { jobs } = await store.claim(aClaim({ max: 200 }));
  await store.settleIfLeased(jobs.map((job) => aSettle(job, finish(ends[nameOf(job)] ?? "completed"))));
  return jobs.map(nameOf);
}

export const nameOf = ({ id }: Pick<LeasedJob, "id">): string => id.slice(2);

/** The ids of what is deferred, in byte order. */
export async function deferred(store: Store): Promise<readonly string[]> {
  const { docs } = await store.readDocs({ kind: "deferred", prefix: "", after: null, max: 1000 });
  return docs.map(({ id }) => id);
}

/** What is deferred so far is done. */
export async function forgive(store: Store): Promise<void> {
  await store.putDocs(
    (await deferred(store)).map((id) => ({ kind: "deferred", id, body: null, guard: "any" as const })),
  );
}
