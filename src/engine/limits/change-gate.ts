/**
 * Gates by compare and set: a change reads the gate, lets the model say what it is to be, and writes it under its
 * version, again and again until no other process was faster. So an edit, a throttle, a pause and a definition at the
 * same moment all hold.
 */
import type { Due } from "../../model/job/change.ts";
import { MillraceError } from "../../model/error.ts";
import { boundsOfBody, boundsPerKeyOf, readBody, settingsOf, writeBody } from "../../model/limits/limit.ts";
import type { LimitBody } from "../../model/limits/limit.ts";
import { behindKeysOf, gateOfLimit, isKeyedGate } from "../../model/routing/lane.ts";
import type { Gate, PutEvent } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";

type GateStore = Pick<Store, "readGates" | "putGates">;

/** A gate as it stands: `gate` is null for one that was never put. */
export interface FoundGate {
  readonly gate: Gate | null;
  readonly body: LimitBody;
  readonly now: number;
}

/** What a change sets; what it leaves out stays as it is. */
export interface GateChange {
  readonly body?: LimitBody;
  readonly closed?: Due | null;
  readonly isIntakeClosed?: boolean;
  readonly emptiesRate?: boolean;
}

/** A gate as a change leaves it, as far as people set it; a time from now on is counted from the read before. */
export type NextGate = Pick<Gate, "closedUntil" | "isIntakeClosed" | "body">;

export interface ChangedGate<Change> {
  readonly found: FoundGate;
  /** Null for none. */
  readonly change: Change | null;
  /** Null if it was never put. */
  readonly after: Gate | null;
}

/** As many processes as may change one gate in the same moment. */
const triesMax = 100;
const pageMax = 500;

export async function readGate(store: GateStore, key: string): Promise<FoundGate> {
  const { gates, now } = await store.readGates({ keys: [key] });
  const gate = gates[0] ?? null;
  return { gate, body: readBody(gate?.body ?? null), now };
}

/**
 * @param decide what is to change; null for nothing.
 * @param emits what the change emits, in the same step.
 * @returns what was decided by, what was changed, and the gate as it stands then, so that nobody has to read it again.
 */
export async function changeGate<Change extends GateChange>(
  store: GateStore,
  key: string,
  decide: (found: FoundGate) => Change | null,
  emits?: (next: NextGate, now: number) => PutEvent,
): Promise<ChangedGate<Change>> {
  for (let tries = 0; tries < triesMax; tries++) {
    const found = await readGate(store, key);
    const { gate, now } = found;
    const change = decide(found);
    if (change === null) return { found, change, after: gate };
    const { body = found.body, isIntakeClosed = gate?.isIntakeClosed ?? false, emptiesRate = false } = change;
    const until = gate?.closedUntil ?? null;
    const kept = until !== null && until > now ? { at: until } : null;
    const closed = change.closed === undefined ? kept : change.closed;
    const closedUntil = closed === null ? null : "at" in closed ? closed.at : now + closed.inMs;
    const next: NextGate = { closedUntil, isIntakeClosed, body: writeBody(body) };
    const bounds = { ...boundsOfBody(body), perKey: boundsPerKeyOf(settingsOf(body)) };
    const [answer] = await store.putGates([
      {
        key,
        guard: { version: gate?.version ?? 0 },
        ...bounds,
        closed,
        isIntakeClosed,
        body: next.body,
        ...(emptiesRate ? { emptiesRate } : {}),
        ...(emits === undefined ? {} : { emits: emits(next, now) }),
      },
    ]);
    if (answer?.kind !== "ok") continue;
    const { version } = answer;
    return { found, change, after: { ...(gate ?? newGate(key)), ...bounds, ...next, version } };
  }
  throw new MillraceError("version-conflict", "The gate changes all the time; try again.");
}

function newGate(key: string): Gate {
  return { key, version: 0, cap: null, rate: null, tatUs: 0, held: 0, perKey: null, ...open };
}

const open: NextGate = { closedUntil: null, isIntakeClosed: false, body: null };

/**
 * All gates whose key starts so, read page by page, in byte order of their keys; not those of the keys of limits, of
 * which there may be one for each that anybody has throttled or edited.
 */
export async function* allGates(
  store: Pick<Store, "readGates">,
  prefix: string,
): AsyncGenerator<{ readonly gate: Gate; readonly now: number }, void, undefined> {
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<Store["readGates"]>> = await store.readGates({
      prefix,
      after,
      max: pageMax,
    });
    for (const gate of page.gates) if (!isKeyedGate(gate.key)) yield { gate, now: page.now };
    const last = page.gates.at(-1)?.key ?? "";
    after = page.cursor !== null && isKeyedGate(last) ? behindKeysOf(gateOfLimit(last)) : page.cursor;
  } while (after !== null);
}
