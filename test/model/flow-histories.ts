/**
 * Random histories of flows, on a store and on the reference model side by side: members of random graphs end, come
 * back, are blocked anew, removed and replaced, flows grow, end and go. Commands are plain data, so that fast-check can
 * shrink and print them; jobs and leases are named by number, modulo what there is.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { everyEnd, bitsOf, writeEdge } from "../../src/model/flow/edge.ts";
import { writeFreed } from "../../src/model/flow/freed.ts";
import { newWaits } from "../../src/model/flow/flow-waits.ts";
import { terminalStates } from "../../src/model/job/job-state.ts";
import type { JobState, TerminalState } from "../../src/model/job/job-state.ts";
import type { ChangeNext } from "../../src/model/job/change.ts";
import type { Effects, LeasedJob, NewJob } from "../../src/store/records.ts";
import type { Store } from "../../src/store/store.ts";
import {
  aChange,
  aClaim,
  aDoc,
  aJob,
  aRoute,
  aSettle,
  askCancel,
  finish,
  handBack,
  remove,
  replay,
  schedule,
} from "../support/builders.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import type { HeldPlatform } from "../support/virtual/held-platform.ts";
import { note } from "./history-world.ts";
import type { Sightings } from "./history-world.ts";
import { openReference } from "../support/stores/reference-as-store.ts";
import {
  auditAll,
  findAll,
  pruneAll,
  readAllDocs,
  readAllDueDocs,
  readWholeFeed,
  sortStateCounts,
} from "../support/walk.ts";

const masks = [
  { meets: bitsOf("completed"), misses: everyEnd - bitsOf("completed") },
  { meets: bitsOf("failed"), misses: everyEnd - bitsOf("failed") },
  { meets: everyEnd, misses: 0 },
  { meets: everyEnd, misses: bitsOf("failed", "expired") },
] as const;

type Drawn<Arbitrary> = Arbitrary extends fc.Arbitrary<infer Shape> ? Shape : never;

/** Of jobs: a claim takes several of them at once. */
const names = ["send", "send", "call"] as const;

const node = fc.record({
  /** Earlier nodes, by number, with the kind of the edge. */
  parents: fc.array(fc.record({ from: fc.nat(5), mask: fc.nat(3) }), { maxLength: 3 }),
  isAny: fc.boolean(),
  defers: fc.constantFrom<0 | 1>(0, 0, 1),
  toFlow: fc.constantFrom(2, 2, 3),
  dueInMs: fc.constantFrom(0, 0, 0, 20),
  ttlMs: fc.constantFrom(null, null, 15),
  deadlineInMs: fc.constantFrom(null, null, 30),
  job: fc.constantFrom(...names),
  key: fc.constantFrom(...Array.from({ length: 10 }, () => null), 0, 1),
  lane: fc.constantFrom(null, null, 0, 1),
  tag: fc.boolean(),
});
type NodeShape = Drawn<typeof node>;

const end = fc.record({
  lease: fc.nat(4),
  to: fc.constantFrom<TerminalState | "retry" | "hand-back">(
    ...(["completed", "completed", "completed", "failed"] as const),
    ...(["cancelled", "retry", "hand-back"] as const),
  ),
  keepMs: fc.constantFrom(null, 0, 20),
  effects: fc.constantFrom("none", "none", "none", "grow", "link", "doc", "refused"),
  grown: fc.nat(5),
  shape: node,
});
const change = fc.record({
  job: fc.nat(20),
  kind: fc.constantFrom(
    ...(["cancel", "skip", "end", "replay", "block", "anew", "step", "remove", "ask", "edit"] as const),
  ),
  to: fc.constantFrom(...terminalStates),
  keepMs: fc.constantFrom(null, 0, 20),
  need: fc.nat(2),
  slack: fc.nat(1),
  parents: fc.array(fc.record({ from: fc.nat(20), mask: fc.nat(3) }), { maxLength: 2 }),
});
const command = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("advance" as const), ms: fc.constantFrom(1, 15, 40) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("submit" as const),
      nodes: fc.array(node, { minLength: 1, maxLength: 6 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("plain" as const), key: fc.nat(1) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("claim" as const), max: fc.integer({ min: 1, max: 5 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      ends: fc.array(end, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("change" as const),
      changes: fc.array(change, { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("upkeep" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("forgive" as const) }) },
);
type Command = Drawn<typeof command>;

const lastOf = <Item>(items: readonly Item[], index: number): Item | undefined =>
  items[items.length - 1 - (index % items.length)];

class FlowWorld {
  readonly #store: Store;
  readonly #reference: Store;
  readonly #platform: HeldPlatform;
  readonly #ids: string[] = [];
  readonly #leases: LeasedJob[] = [];
  readonly #sightings: Sightings;
  #made = 0;

  constructor(store: Store, platform: HeldPlatform, options: { epoch: number; sightings: Sightings }) {
    this.#store = store;
    this.#platform = platform;
    this.#reference = openReference(platform, options.epoch);
    this.#sightings = options.sightings;
  }

  async run(commands: readonly Command[]): Promise<void> {
    for (const [index, each] of commands.entries()) {
      await this.#run(each, `command ${index + 1}: ${each.do}`);
      await this.#both(`command ${index + 1}: the jobs behind it`, (store) => findAll(store));
    }
    await this.#both("all stateCounts", async (store) => sortStateCounts(await store.countJobs()));
    await this.#both("the feed", (store) => readWholeFeed(store));
    await this.#both("what is deferred", (store) => readAllDocs(store, "deferred", ""));
    await this.#both("all due documents", (store) => readAllDueDocs(store));
    expect(await auditAll(this.#store), "a healthy store needs no repair").toEqual({});
  }

  async #both<Answer>(what: string, ask: (store: Store) => Promise<Answer>): Promise<Answer> {
    const expected = await ask(this.#reference);
    expect(await ask(this.#store), what).toEqual(expected);
    note(this.#sightings, what.replace(/^.*: /, ""), expected);
    return expected;
  }

  async #run(each: Command, what: string): Promise<void> {
    switch (each.do) {
      case "advance":
        return this.#platform.advance(each.ms);
      case "submit":
        return this.#submit(this.#flow(each.nodes), what);
      case "plain": {
        const unique = { key: `k${each.key}`, hold: "end", onHeld: "replace" } as const;
        return this.#submit([aJob({ id: `x${++this.#made}`, unique, ttlMs: 50 })], what);
      }
      case "claim": {
        const offers = [{}, { laneKey: "any" }].map((lane) => ({
          routes: [...new Set(names)].map((name) => aRoute({ ...lane, name })),
          max: each.max,
        }));
        const { jobs } = await this.#both(what, (store) =>
          store.claim(aClaim({ offers, leaseMs: 1_000_000 })),
        );
        this.#leases.push(...jobs);
        return;
      }
      case "settle": {
        if (this.#leases.length === 0) return;
        const settles = each.ends.map((shape) => this.#settle(shape));
        const answers = await this.#both(what, (store) => store.settleIfLeased(settles));
        for (const [index, { kind }] of answers.entries())
          if (kind === "ok") for (const { id } of settles[index]?.effects?.jobs ?? []) this.#ids.push(id);
        // What was settled is named again only where little else is left.
        const used = new Set(settles.map(({ id }) => id));
        this.#leases.sort((one, other) => Number(used.has(other.id)) - Number(used.has(one.id)));
        return;
      }
      case "change": {
        if (this.#ids.length === 0) return;
        for (const shape of each.changes) {
          const id = lastOf(this.#ids, shape.job) as string;
          const [states, next] = this.#change(id, shape);
          await this.#both(what, (store) => store.changeIf([aChange(id, states, next)]));
        }
        return;
      }
      case "upkeep":
        await this.#both(what, (store) => store.promoteDue({ max: 50 }));
        await this.#both(what, (store) => pruneAll(store, { what: "kept", max: 10 }));
        for (const outcome of terminalStates)
          await this.#both(what, (store) =>
            pruneAll(store, {
              ...{
                what: "history",
                outcome,
                queue: null,
                exceptQueues: [],
                olderThanMs: 20,
                max: 10,
                cursor: null,
              },
            }),
          );
        return;
      case "forgive":
        await this.#both(what, async (store) => {
          const docs = await readAllDocs(store, "deferred", "");
          return store.putDocs(
            docs.map(({ id }) => ({ kind: "deferred", id, body: null, guard: "any" as const })),
          );
        });
    }
  }

  async #submit(jobs: readonly NewJob[], what: string): Promise<void> {
    const [answer] = await this.#both(what, (store) => store.submit([{ jobs }]));
    if (answer?.kind === "ok") this.#ids.push(...jobs.map(({ id }) => id));
  }

  /** A flow "F1" of members "F1.0", "F1.1" and so on. */
  #flow(nodes: readonly NodeShape[]): NewJob[] {
    const id = `F${++this.#made}`;
    const waits = newWaits({ need: nodes.length, defers: 1, total: nodes.length });
    const members = nodes.map((shape, at) => {
      const to = nodes.flatMap(({ parents }, child) =>
        parents
          .filter(({ from }) => child > at && from % child === at)
          .map(({ mask }) => writeEdge({ ...masks[mask]!, target: String(child) })),
      );
      return this.#member(id, String(at), shape, { to, count: at === 0 ? 0 : shape.parents.length });
    });
    return [aJob({ id, queue: "flows", waits }), ...members];
  }

  #member(
    flow: string,
    name: string,
    shape: NodeShape,
    { to, count }: { to: readonly string[]; count: number },
  ): NewJob {
    const { isAny, defers, toFlow, dueInMs, ttlMs, deadlineInMs, key, lane, tag, job } = shape;
    const place = { due: { inMs: dueInMs }, rankBase: 0, rankSlope: 1, ttlMs };
    const counts = isAny && count > 0 ? { need: 1, slack: count - 1 } : { need: count, slack: 0 };
    return aJob({
      id: `${flow}.${name}`,
      name: job,
      flow,
      edges: [writeEdge({ ...masks[toFlow]!, target: "" }), ...to],
      freed: writeFreed(place),
      waits: newWaits({ ...counts, defers }),
      deadline: deadlineInMs === null ? null : { inMs: deadlineInMs },
      unique: key === null ? null : { key: `k${key}`, hold: "end", onHeld: "keep" },
      tags: tag ? ["t"] : null,
      ...(lane === null ? {} : { laneKey: `lane ${lane}` }),
      ...place,
    });
  }

  #settle(shape: Drawn<typeof end>) {
    const lease = lastOf(this.#leases, shape.lease) as LeasedJob;
    const { to, keepMs } = shape;
    const next =
      to === "retry"
        ? schedule(10)
        : to === "hand-back"
          ? handBack
          : finish(to, { keepMs, result: `"${lease.fence}"` });
    const effects = this.#effects(lease, shape);
    return aSettle(lease, next, { attempts: "log", ...(effects === null ? {} : { effects }) });
  }

  #effects(
    { id }: LeasedJob,
    { effects, grown, shape }: { effects: string; grown: number; shape: NodeShape },
  ): Effects | null {
    const [flow = ""] = id.split(".");
    const job = this.#member(flow, `g${++this.#made}`, shape, { to: [], count: 1 });
    const grows = [
      { id: flow, need: 1, slack: 0, members: 1 },
      ...(grown === 5 ? [{ id: `${flow}.3`, need: 1, slack: 1, members: 0 }] : []),
    ];
    const docs = [aDoc("d", "1", { guard: { version: 99 } })];
    if (effects === "grow")
      return { grows, jobs: [this.#member(flow, `g${this.#made}`, shape, { to: [], count: 0 })] };
    const edge = writeEdge({ ...masks[grown % 4]!, target: job.id.slice(flow.length + 1) });
    const links = [
      { from: `${flow}.${grown}`, edge },
      { from: id, edge },
    ];
    if (effects === "link") return { grows, links, jobs: [job] };
    if (effects === "refused") return { grows, links: links.slice(0, 1), jobs: [job], docs };
    return effects === "doc" ? { docs: [aDoc("d", "1")] } : null;
  }

  #change(id: string, shape: Drawn<typeof change>): [JobState[], ChangeNext] {
    const waiting: JobState[] = ["blocked", "scheduled", "ready"];
    const { kind, to, keepMs, need, slack, parents } = shape;
    const counted = { need, slack };
    const edges = parents.map(({ from, mask }) =>
      writeEdge({ ...masks[mask]!, target: lastOf(this.#ids, from) as string }),
    );
    const isMember = id.includes(".");
    switch (kind) {
      case "cancel":
        return [[...waiting, "running"], finish("cancelled", { keepMs })];
      case "skip":
        return [["blocked"], finish("skipped", { keepMs })];
      case "end":
        return [["blocked"], finish(to, { keepMs })];
      case "replay":
        return [isMember ? [...terminalStates, "blocked"] : [], replay()];
      case "block":
        return [
          id.startsWith("F") ? [...terminalStates, "blocked"] : [],
          { to: "blocked", event: "replayed", parents: [], waits: null },
        ];
      case "anew":
        return [
          isMember ? [...terminalStates, "blocked"] : [],
          { to: "blocked", event: "replayed", parents: edges, waits: counted, attempt: 0 },
        ];
      case "step":
        return [isMember ? [...terminalStates] : [], { to: "same", event: "passed-on", passesOn: 500 }];
      case "remove":
        return [[...waiting, ...terminalStates], remove];
      case "ask":
        return [["blocked", "running"], askCancel];
      case "edit":
        return [waiting, { to: "same", event: "edited", edit: { input: "2" } }];
    }
  }
}

export async function expectSameFlows(
  open: (platform: HeldPlatform) => Promise<Store>,
  numRuns: number,
): Promise<Sightings> {
  const sightings: Sightings = new Map();
  const { HISTORY_SEED: seed, HISTORY_PATH: path, HISTORY_RUNS: runs } = process.env;
  const property = fc.asyncProperty(fc.array(command, { maxLength: 30, size: "max" }), async (commands) => {
    const platform = createHeldPlatform();
    const store = await open(platform);
    try {
      const { epoch } = await store.describe();
      await new FlowWorld(store, platform, { epoch, sightings }).run(commands);
    } finally {
      await store.close();
    }
  });
  await fc.assert(property, {
    numRuns: runs === undefined ? numRuns : Number(runs),
    ...(seed === undefined ? {} : { seed: Number(seed), ...(path === undefined ? {} : { path }) }),
  });
  return sightings;
}
