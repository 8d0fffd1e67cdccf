/**
 * Reads and changes limits for all processes of the store. The code's definition is the default; an edit holds until
 * the code's own definition changes. A call with a key concerns that key of the limit alone.
 */
import type { Needs } from "../engine/services.ts";
import { allGates, changeGate } from "../engine/limits/change-gate.ts";
import type { FoundGate, GateChange } from "../engine/limits/change-gate.ts";
import { checkWeight, isLimit } from "../engine/limits/limit-definition.ts";
import type { Limit } from "../engine/limits/limit-definition.ts";
import { needsKey, unknownLimit } from "../engine/limits/limits-in-use.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { gateName, limitGateKey, permitsLeft } from "../model/limits/gate.ts";
import type { Learn } from "../model/limits/learning.ts";
import { keyedGate } from "../model/routing/lane.ts";
import {
  afterEdit,
  isBoundedInAll,
  learnedOf,
  readBody,
  readEdit,
  readLimitEdit,
  settingsOf,
} from "../model/limits/limit.ts";
import type { BoundSettings, LimitBody, LimitSettings, Rate, RateOptions } from "../model/limits/limit.ts";
import { checkName } from "../model/name.ts";
import { MillraceError } from "../model/error.ts";
import { checkOptions, invalidOption } from "../model/option.ts";
import type { Gate } from "../store/records.ts";
import type { Permit } from "../worker/permits/permit.ts";
import type { Permits } from "../worker/permits/permits.ts";
import { readLease } from "../worker/worker-settings.ts";

type LimitsClientNeeds = Needs<"store" | "limits">;

export interface LimitState {
  readonly name: string;
  /** How many permits may be held at once; null for any number. */
  readonly concurrency: number | null;
  readonly rate: Rate | null;
  /** What bounds each key that has no edit of its own; null if nothing does. */
  readonly perKey: BoundSettings | null;
  /** How it learns; left out if it does not. */
  readonly learn?: Learn;
  /** The concurrency that it has learned, up to its own; null for a limit that does not learn. */
  readonly learned: number | null;
  /** The code's definition, if an operator has edited it; null if not. */
  readonly defined: LimitSettings | null;
  /** Permits held by running jobs. */
  readonly held: number;
  /** Permits that are free right now; null for any number. */
  readonly free: number | null;
  /** When its cooldown after a throttle ends; null if it does not cool down. */
  readonly coolingUntil: Date | null;
}

/** The settings and the use of one key of a limit. */
export interface LimitKeyState extends Omit<LimitState, "perKey" | "defined" | "learn" | "learned"> {
  readonly key: string;
  /** The edit of this key alone; null if it is as the limit defines for each key. */
  readonly edited: Partial<BoundSettings> | null;
}

/** A bound that is left out stays; null removes it. */
export interface BoundEdit {
  concurrency?: number | null;
  rate?: RateOptions | null;
}

export interface LimitEdit extends BoundEdit {
  /** The bounds of each key; null removes them. */
  perKey?: BoundEdit | null;
}

/** One key of a limit. */
export interface LimitKeyOptions {
  key: string;
}

export interface ThrottleOptions {
  /** The key that cools down; if left out, the whole limit. */
  key?: string;
  /** How long nothing passes; if left out, the time grows with each throttle. */
  retryAfter?: Duration;
}

export interface AcquireOptions {
  /** The key of the limit whose permits are taken. A limit that bounds keys only needs one. */
  key?: string;
  /** How many permits are taken together; 1 by default. */
  weight?: number;
  /** How long to wait for them; 30 s by default, 0 tries once. After it the call is refused as `limit-busy`. */
  wait?: Duration;
  /** If it fires, the wait ends with `aborted`. */
  signal?: AbortSignal;
  /**
   * How long a process may be unheard of before its permits are free again; 15 s by default. The lease is renewed
   * meanwhile.
   */
  lease?: Duration;
}

const acquireKeys = ["key", "weight", "wait", "signal", "lease"];
const defaultWaitMs = 30_000;

export class LimitsClient {
  readonly #needs: LimitsClientNeeds;
  readonly #permits: Permits;
  readonly #startDuties: () => void;

  /**
   * @param startDuties called before the wait for a permit, because a duty must reclaim the permits of dead processes.
   */
  constructor(needs: LimitsClientNeeds, permits: Permits, startDuties: () => void) {
    this.#needs = needs;
    this.#permits = permits;
    this.#startDuties = startDuties;
  }

  /**
   * Takes permits of a limit for code that is not a job, or for a part of a job. They are held until they are released
   * (`await using permit = ...`) or the process ends.
   */
  async acquire(limit: Limit | string, options: AcquireOptions = {}): Promise<Permit> {
    const name = isLimit(limit) ? limit.name : checkName(limit, "limits.acquire: limit");
    const what = `limits.acquire ${JSON.stringify(name)}`;
    const given = checkOptions(options, what, acquireKeys);
    const { weight = 1, wait = defaultWaitMs, signal, lease } = given;
    const key = given["key"] === undefined ? null : checkName(given["key"], `${what}: key`);
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw invalidOption(`${what}: signal must be an AbortSignal.`);
    const waitMs = durationMs(wait, `${what}: wait`);
    const leaseMs = readLease(lease, `${what}: lease`);
    const refuseAborted = (): void => {
      if (signal?.aborted === true)
        throw new MillraceError("aborted", `${what} was aborted.`, { cause: signal.reason });
    };
    refuseAborted();
    if (isLimit(limit)) await this.#needs.limits.define([{ limit }]);
    const { own, ofKey, now } = await this.#readOf(name, key);
    const body = readBody(own.body);
    const isBounded = body.defined === null || isBoundedInAll(body.defined);
    if (key === null && !isBounded) throw needsKey(name);
    const checked = checkWeight(weight, settingsOf(body), what);
    const keyState = key === null ? null : stateOfKey(own, key, ofKey, now);
    if (keyState !== null) checkWeight(weight, keyState, `${what}: key ${JSON.stringify(key)}`);
    refuseAborted();
    const free = Math.min(isBounded ? permitsLeft(own, now) : Infinity, keyState?.free ?? Infinity);
    if (waitMs === 0 && free < checked)
      throw new MillraceError("limit-busy", `${what}: no permit is free right now.`);
    this.#startDuties();
    const wanted = { limit: name, weight: checked, leaseMs, isBoundedInAll: isBounded };
    return this.#permits.acquire(wanted, { key, waitMs, signal });
  }

  /** Makes the limit known to the store before its first use, such as an enqueue inside a transaction. */
  async define(limit: Limit): Promise<LimitState> {
    if (!isLimit(limit)) throw invalidOption("limits.define: give a limit made by limit().");
    const { gate, now } = await this.#needs.limits.defined(limit);
    return stateOf(gate, now);
  }

  async state(name: string): Promise<LimitState>;
  async state(name: string, options: LimitKeyOptions): Promise<LimitKeyState>;
  async state(name: string, options?: LimitKeyOptions): Promise<LimitState | LimitKeyState> {
    keyOf(name, "limits.state");
    const key = options === undefined ? null : readKeyOption(options, "limits.state");
    const { own, ofKey, now } = await this.#readOf(name, key);
    return key === null ? stateOf(own, now) : stateOfKey(own, key, ofKey, now);
  }

  /** All limits that the store knows, by name. */
  async list(): Promise<readonly LimitState[]> {
    const states: LimitState[] = [];
    for await (const { gate, now } of allGates(this.#needs.store, limitGateKey("")))
      states.push(stateOf(gate, now));
    return states;
  }

  /**
   * Holds at once for waiting jobs; running jobs keep their permits. An edit holds until the code's definition changes,
   * that of a key until it is reset. For a key, null stands for the limit's own bounds of each key.
   */
  async edit(name: string, edit: LimitEdit): Promise<LimitState>;
  async edit(name: string, edit: BoundEdit, options: LimitKeyOptions): Promise<LimitKeyState>;
  async edit(name: string, edit: LimitEdit, options?: LimitKeyOptions): Promise<LimitState | LimitKeyState> {
    const gateKey = keyOf(name, "limits.edit");
    if (options !== undefined) {
      const key = readKeyOption(options, "limits.edit");
      const edited = readEdit(edit, "limits.edit");
      return this.#changeKey(name, key, (body) => ({ body: afterEdit(body, edited) }));
    }
    const edited = readLimitEdit(edit, "limits.edit");
    return this.#change(name, gateKey, ({ body }) => {
      const isGlobal = (edited.concurrency ?? null) !== null || (edited.rate ?? null) !== null;
      if (isGlobal && body.defined !== null && !isBoundedInAll(body.defined)) throw needsKey(name);
      return { body: afterEdit(body, edited) };
    });
  }

  /**
   * Resets a limit to the code's definition, or a key to the limit's bounds of each key. Ends a cooldown and discards
   * what was learned.
   */
  async reset(name: string): Promise<LimitState>;
  async reset(name: string, options: LimitKeyOptions): Promise<LimitKeyState>;
  async reset(name: string, options?: LimitKeyOptions): Promise<LimitState | LimitKeyState> {
    const gateKey = keyOf(name, "limits.reset");
    const change = ({ learned: _discarded, ...body }: LimitBody): GateChange => ({
      body: { ...body, edited: {}, throttle: null },
      closed: null,
    });
    if (options !== undefined) {
      const key = readKeyOption(options, "limits.reset");
      return this.#changeKey(name, key, change);
    }
    return this.#change(name, gateKey, ({ body }) => change(body));
  }

  /** Does the same to the limit as `Throttled` in a handler: nothing passes for a while, and its tokens are gone. */
  async throttle(name: string, options: ThrottleOptions & LimitKeyOptions): Promise<LimitKeyState>;
  async throttle(name: string, options?: ThrottleOptions): Promise<LimitState>;
  async throttle(name: string, options: ThrottleOptions = {}): Promise<LimitState | LimitKeyState> {
    keyOf(name, "limits.throttle");
    const { retryAfter, key } = checkOptions(options, "limits.throttle", ["retryAfter", "key"]);
    const saidMs = retryAfter === undefined ? null : durationMs(retryAfter, "limits.throttle: retryAfter");
    const ofKey = key === undefined ? null : checkName(key, "limits.throttle: key");
    const { own, ofKey: gate, now } = await this.#needs.limits.throttleGate(name, ofKey, saidMs);
    return ofKey === null ? stateOf(own, now) : stateOfKey(own, ofKey, gate, now);
  }

  /** Reads the limit's gate, and that of the key: null if it was never written and no job holds it. */
  async #readOf(name: string, key: string | null): Promise<{ own: Gate; ofKey: Gate | null; now: number }> {
    const gateKey = limitGateKey(name);
    const keys = key === null ? [gateKey] : [gateKey, keyedGate(gateKey, key)];
    const { gates, now } = await this.#needs.store.readGates({ keys });
    const own = gates.find((gate) => gate.key === gateKey);
    if (own === undefined) throw unknownLimit(name);
    return { own, ofKey: gates.find((gate) => gate.key !== gateKey) ?? null, now };
  }

  async #change(
    name: string,
    gateKey: string,
    change: (found: FoundGate) => GateChange,
  ): Promise<LimitState> {
    const { store } = this.#needs;
    const { after, found } = await changeGate(store, gateKey, (read) => change(mustBeKnown(read, name)));
    return stateOf(mustBeKnown({ ...found, gate: after }, name).gate, found.now);
  }

  async #changeKey(
    name: string,
    key: string,
    change: (body: LimitBody) => GateChange,
  ): Promise<LimitKeyState> {
    const own = await this.#needs.limits.mustKnow(name);
    const gateKey = keyedGate(limitGateKey(name), key);
    const { after, found } = await changeGate(this.#needs.store, gateKey, ({ body }) => change(body));
    return stateOfKey(own, key, after, found.now);
  }
}

function readKeyOption(options: unknown, what: string): string {
  return checkName(checkOptions(options, what, ["key"])["key"], `${what}: key`);
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
    perKey: null,
    ...settings,
    learned: learnedOf(body),
    defined: Object.keys(body.edited).length === 0 ? null : body.defined,
    held: gate.held,
    free: free === Infinity ? null : free,
    coolingUntil: closedUntil !== null && closedUntil > now ? new Date(closedUntil) : null,
  };
}

/** @param gate that of the key; null if it was never written and no job holds it. */
function stateOfKey(limit: Gate, key: string, gate: Gate | null, now: number): LimitKeyState {
  const { edited } = readBody(gate?.body ?? null);
  const { perKey } = settingsOf(readBody(limit.body));
  const asLimit = {
    ...limit,
    ...(limit.perKey ?? { cap: null, rate: null }),
    key: keyedGate(limit.key, key),
  };
  const own = gate ?? { ...asLimit, held: 0, tatUs: 0, closedUntil: null };
  const {
    perKey: _none,
    defined: _defined,
    learned: _learned,
    learn: _learn,
    ...state
  } = stateOf({ ...own, body: null }, now);
  return {
    ...state,
    name: gateName(limit.key),
    key,
    concurrency: edited.concurrency ?? perKey?.concurrency ?? null,
    rate: edited.rate ?? perKey?.rate ?? null,
    edited: Object.values(edited).every((bound) => bound === null) ? null : edited,
  };
}
