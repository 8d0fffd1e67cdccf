/**
 * Looking at limits and operating on them, for all processes of the store. What the code defines is the default; an
 * edit persists until the code's own definition changes.
 */
import type { Engine } from "../engine/engine.ts";
import { allGates, changeGate, readGate } from "../engine/gates.ts";
import type { FoundGate } from "../engine/gates.ts";
import { checkWeight, isLimit } from "../engine/limit.ts";
import type { Limit } from "../engine/limit.ts";
import { unknownLimit } from "../engine/limits.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { gateName, limitGateKey, permitsLeft } from "../model/gate.ts";
import type { Learn } from "../model/learning.ts";
import { learnedOf, readBody, readEdit, settingsOf } from "../model/limit.ts";
import type { LimitSettings, Rate, RateOptions } from "../model/limit.ts";
import { checkName } from "../model/name.ts";
import { MillraceError, notYetSupported } from "../model/error.ts";
import { checkOptions, invalidOption } from "../model/option.ts";
import type { Gate } from "../store/records.ts";
import type { Permit } from "../worker/permit.ts";
import type { Permits } from "../worker/permits.ts";
import { readLease } from "../worker/worker-settings.ts";

export interface LimitState {
  readonly name: string;
  /** How many permits may be held at once; null for any number. */
  readonly concurrency: number | null;
  readonly rate: Rate | null;
  /** How it learns; left out where it does not. */
  readonly learn?: Learn;
  /** What it has learned to hold at once, up to its concurrency; null for a limit that does not learn. */
  readonly learned: number | null;
  /** What the code says, where an operator's edit says otherwise; null where nothing is edited. */
  readonly defined: LimitSettings | null;
  /** Permits held by running jobs. */
  readonly held: number;
  /** Permits that could pass right now; null for any number. */
  readonly free: number | null;
  /** Until when it cools down after a throttle; null for not. */
  readonly coolingUntil: Date | null;
}

/** What is left out stays; null takes the bound away. */
export interface LimitEdit {
  concurrency?: number | null;
  rate?: RateOptions | null;
}

export interface ThrottleOptions {
  /** How long nothing passes; left out, longer from one throttle to the next. */
  retryAfter?: Duration;
}

export interface AcquireOptions {
  /** How many permits are taken together; 1 by default. */
  weight?: number;
  /** How long to wait for them; 30 s by default. 0 tries once. Then it is refused as `limit-busy`. */
  wait?: Duration;
  /** Ends the wait when it fires, with `aborted`. */
  signal?: AbortSignal;
  /** How long they stay with a process that is not heard of; 15 s by default. The lease renews itself. */
  lease?: Duration;
}

const acquireKeys = ["weight", "wait", "signal", "lease"];
const defaultWaitMs = 30_000;

export class LimitsClient {
  readonly #engine: Engine;
  readonly #permits: Permits;
  readonly #startDuties: () => void;

  /** @param startDuties called before a permit is waited for: somebody must reclaim those of processes that died. */
  constructor(engine: Engine, permits: Permits, startDuties: () => void) {
    this.#engine = engine;
    this.#permits = permits;
    this.#startDuties = startDuties;
  }

  /**
   * Takes a part of a limit for code that is no job of it, or only for a stretch of one. It is held until it is
   * released (`await using permit = ...`), or its process ends.
   */
  async acquire(limit: Limit | string, options: AcquireOptions = {}): Promise<Permit> {
    const name = isLimit(limit) ? limit.name : checkName(limit, "limits.acquire: limit");
    const what = `limits.acquire ${JSON.stringify(name)}`;
    if (typeof options === "object" && options !== null && "key" in options)
      throw notYetSupported(`${what}: the option key`);
    const given = checkOptions(options, what, acquireKeys);
    const { weight = 1, wait = defaultWaitMs, signal, lease } = given;
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw invalidOption(`${what}: signal must be an AbortSignal.`);
    const waitMs = durationMs(wait, `${what}: wait`);
    const leaseMs = readLease(lease, `${what}: lease`);
    const refuseAborted = (): void => {
      if (signal?.aborted === true)
        throw new MillraceError("aborted", `${what} was aborted.`, { cause: signal.reason });
    };
    refuseAborted();
    if (isLimit(limit)) await this.#engine.limits.define([limit.use()]);
    const found = mustBeKnown(await readGate(this.#engine.store, limitGateKey(name)), name);
    const checked = checkWeight(weight, settingsOf(found.body), what);
    refuseAborted();
    if (waitMs === 0 && permitsLeft(found.gate, found.now) < checked)
      throw new MillraceError("limit-busy", `${what}: no permit is free right now.`);
    this.#startDuties();
    return this.#permits.acquire({ limit: name, weight: checked, leaseMs }, { waitMs, signal });
  }

  /** Makes the limit known to the store before its first use, such as an enqueue inside a transaction. */
  async define(limit: Limit): Promise<LimitState> {
    if (!isLimit(limit)) throw invalidOption("limits.define: give a limit made by limit().");
    await this.#engine.limits.define([limit.use()]);
    return this.state(limit.name);
  }

  async state(name: string): Promise<LimitState> {
    const found = await readGate(this.#engine.store, keyOf(name, "limits.state"));
    const { gate, now } = mustBeKnown(found, name);
    return stateOf(gate, now);
  }

  /** All limits that the store knows, by name. */
  async list(): Promise<readonly LimitState[]> {
    const states: LimitState[] = [];
    for await (const { gate, now } of allGates(this.#engine.store, limitGateKey("")))
      states.push(stateOf(gate, now));
    return states;
  }

  /** Holds at once for what waits; what runs keeps what it has. Persists until the code's definition changes. */
  async edit(name: string, edit: LimitEdit): Promise<LimitState> {
    const key = keyOf(name, "limits.edit");
    const edited = readEdit(edit, "limits.edit");
    await changeGate(this.#engine.store, key, (found) => {
      const { body } = mustBeKnown(found, name);
      return { body: { ...body, edited: { ...body.edited, ...edited } } };
    });
    return this.state(name);
  }

  /** Back to what the code defines; a cooldown ends, and what was learned is forgotten. */
  async reset(name: string): Promise<LimitState> {
    const key = keyOf(name, "limits.reset");
    await changeGate(this.#engine.store, key, (found) => {
      const { body } = mustBeKnown(found, name);
      const { learned: _forgotten, ...kept } = body;
      return { body: { ...kept, edited: {}, throttle: null }, closed: null };
    });
    return this.state(name);
  }

  /** What `Throttled` does to the limit, from anywhere: nothing passes for a while, and its tokens are gone. */
  async throttle(name: string, options: ThrottleOptions = {}): Promise<LimitState> {
    keyOf(name, "limits.throttle");
    const { retryAfter } = checkOptions(options, "limits.throttle", ["retryAfter"]);
    const saidMs = retryAfter === undefined ? null : durationMs(retryAfter, "limits.throttle: retryAfter");
    await this.#engine.limits.throttle(name, saidMs);
    return this.state(name);
  }
}

function keyOf(name: string, what: string): string {
  return limitGateKey(checkName(name, `${what}: name`));
}

function mustBeKnown(found: FoundGate, name: string): FoundGate & { readonly gate: Gate } {
  const { gate } = found;
  if (gate === null) throw unknownLimit(name);
  return { ...found, gate };
}

function stateOf(gate: Gate, now: number): LimitState {
  const body = readBody(gate.body);
  const settings = settingsOf(body);
  const free = permitsLeft(gate, now);
  const { closedUntil } = gate;
  return {
    name: gateName(gate.key),
    ...settings,
    learned: learnedOf(body),
    defined: Object.keys(body.edited).length === 0 ? null : body.defined,
    held: gate.held,
    free: free === Infinity ? null : free,
    coolingUntil: closedUntil !== null && closedUntil > now ? new Date(closedUntil) : null,
  };
}
