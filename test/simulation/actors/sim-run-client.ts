/**
 * Durable runs, drawn per seed: how often a client starts one or acts on one that it knows, and what such a run is like
 * (actors/sim-runs.ts). Clients send signals with keys, without, again, early and late, answer by tokens, and cancel,
 * retry and continue runs. Every draw is from a stream of its own, so that a seed without runs means what it meant
 * before.
 */
import { isMillraceError } from "../../../src/model/error.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { Enqueue, TokenAnswer } from "../../history/history.ts";
import type { Network } from "../faulty-store.ts";
import type { SimNode } from "./sim-node.ts";
import { travel } from "./sim-runs.ts";
import type { TravelInput } from "./sim-runs.ts";

export interface Running {
  /** How many of the clients' actions are about durable runs; 0 for none. */
  readonly share: number;
  /** How many of the runs have steps with an undo. */
  readonly undoing: number;
}

/** MILLRACE_RUNS=1 draws runs in every seed; one that has none without it means another run then. */
const areForced = process.env["MILLRACE_RUNS"] === "1";
/** The places that no seed of seeds.ts draws. */
const shares: readonly number[] = Array.from({ length: 40 }, (_, place) => {
  if ([11, 13, 21, 33].includes(place)) return 0.4;
  return [15, 26, 30, 31].includes(place) ? 0.7 : 0;
});

export function drawRunning(random: SeededRandom): Running {
  const drawn = random.pick(shares);
  const undoing = random.pick([0, 0.3, 0.7]);
  return { share: drawn === 0 && areForced ? random.pick([0.3, 0.6, 0.9]) : drawn, undoing };
}

export const describeRunning = ({ share }: Running): string => (share === 0 ? "" : `, durable runs ${share}`);

export interface RunHost {
  readonly network: Network;
  /** Numbers the keys of inputs, over all nodes. */
  keys: number;
  /** Ids of runs that some client has seen acknowledged, or has given itself. */
  readonly travels: string[];
  /** Of the keys that sign tokens, as far as they are known to have happened. */
  readonly rotations: Rotation[];
}

interface Rotation {
  readonly invokedUs: number;
  /** By the store's clock: the keys that signed until then end at the latest then. */
  readonly keysEndAt: number;
}

const sources = ["ann", "bob", "cleo"] as const;

/** One act on a run that is known. Never rejects: every refusal is a part of the run. */
export async function actOnRuns(host: RunHost, node: SimNode, random: SeededRandom): Promise<void> {
  // The latest ones are likely to be alive.
  const id = random.pick(random.chance(0.7) ? host.travels.slice(-4) : host.travels);
  const { jobs } = node.mill;
  try {
    switch (random.whole(0, 11)) {
      case 0:
        await jobs.cancel(id, `asked by ${node.process.name}`);
        return;
      case 1:
        await jobs.retry(id, { fromStart: random.chance(0.5), resetAttempts: random.chance(0.5) });
        return;
      case 2:
      case 3:
        await answerByToken(host, node, id, random);
        return;
      case 4:
        await signalWithStart(host, node, random);
        return;
      case 5:
        await node.mill.handle(id).result({ timeout: random.whole(1, 20_000) });
        return;
      default:
        await signalRun(node, id, random);
    }
  } catch (error) {
    if (!isMillraceError(error)) throw error;
  }
}

/** Some of the keys are used again and again, by others too. */
async function signalRun(node: SimNode, id: string, random: SeededRandom): Promise<void> {
  const name = random.pick(["x", "y", "ok"] as const);
  const value = name === "ok" ? { ok: random.chance(0.8) } : random.whole(0, 9);
  const key = random.chance(0.6) ? { key: `s${random.whole(1, 6)}` } : {};
  const source = random.chance(0.5) ? { source: random.pick(sources) } : {};
  const send = (): Promise<unknown> => node.mill.signal(id, name, value, { ...key, ...source });
  if (random.chance(0.2)) {
    await Promise.all([send(), send()]);
    return;
  }
  await send();
  if (!random.chance(0.3)) return;
  await node.process.sleep(random.whole(1, 2000));
  await send();
}

/** The run may be there already, and the call may be repeated. */
async function signalWithStart(host: RunHost, node: SimNode, random: SeededRandom): Promise<void> {
  const { history, time } = host.network;
  const key = `k${++host.keys}`;
  const input: TravelInput = { key, round: 0 };
  const id = `begun-${key}`;
  const submission = travel.with(input, { id, retry: { attempts: 3, backoff: "1s" } });
  for (let repeat = random.whole(1, 3); repeat > 0; repeat--) {
    const entry: Enqueue = {
      ...{ kind: "enqueue", actor: node.process.name, seen: "unknown", order: null },
      ...{ invokedUs: time.elapsedUs, answeredUs: null, inputs: [JSON.stringify(input)], got: null },
    };
    history.push(entry);
    try {
      await node.mill.signal(submission, "x", random.whole(0, 9), { key: "begun" });
      entry.seen = "ok";
      entry.got = [id];
    } catch (error) {
      if (!isMillraceError(error)) throw error;
      entry.seen = error.outcome === "did-not-happen" ? "failed" : "unknown";
    }
    entry.answeredUs = time.elapsedUs;
    if (entry.seen !== "failed" && !host.travels.includes(id)) host.travels.push(id);
  }
}

/** Sometimes twice, sometimes by two at once, sometimes late. */
async function answerByToken(host: RunHost, node: SimNode, id: string, random: SeededRandom): Promise<void> {
  const { approvals } = node.mill;
  const source = random.pick(sources);
  const expiresMs = random.whole(100, 10_000);
  const token = await approvals.token(id, "ok", { source, expires: expiresMs });
  const madeUs = host.network.time.elapsedUs;
  if (random.chance(0.2)) await approvals.look(token);
  if (random.chance(0.1)) await rotateKeys(host, node, random.whole(0, 5000));
  if (random.chance(0.3)) await node.process.sleep(random.whole(1, expiresMs * 2));
  const answers = random.pick([1, 1, 2]);
  await Promise.all(
    Array.from({ length: answers }, () => answerOnce(host, node, { token, madeUs }, random.chance(0.8))),
  );
}

async function rotateKeys({ network, rotations }: RunHost, node: SimNode, graceMs: number): Promise<void> {
  const invokedUs = network.time.elapsedUs;
  await node.mill.approvals.rotateKeys({ grace: graceMs });
  const { now } = await network.store.describe();
  rotations.push({ invokedUs, keysEndAt: now + graceMs });
}

async function answerOnce(
  { network: { history, time, store }, rotations }: RunHost,
  node: SimNode,
  { token, madeUs }: { readonly token: string; readonly madeUs: number },
  ok: boolean,
): Promise<void> {
  const [claims = ""] = token.split(".");
  const [, , run, round, wait, source, expiresAt] = JSON.parse(
    Buffer.from(claims, "base64url").toString(),
  ) as [number, string, string, number, string, string, number];
  const { now: invokedAt } = await store.describe();
  const ends = rotations.filter(({ invokedUs }) => invokedUs > madeUs).map(({ keysEndAt }) => keysEndAt);
  const entry: TokenAnswer = {
    ...{ kind: "token-answer", actor: node.process.name, seen: "unknown", order: null, invokedAt },
    ...{ run, round, key: `answer:${wait}:${source}`, expiresAt },
    keyEndsAt: ends.length === 0 ? null : Math.min(...ends),
    ...{ invokedUs: time.elapsedUs, answeredUs: null, said: null },
  };
  history.push(entry);
  try {
    const { kind } = await node.mill.approvals.answer(token, { ok });
    entry.said = kind === "accepted" ? "accepted" : "refused";
    entry.seen = "ok";
  } catch (error) {
    if (!isMillraceError(error)) throw error;
  }
  entry.answeredUs = time.elapsedUs;
}

/** Once the world has healed, nobody waits for ever: every run that waits for a signal gets one, again and again. */
export async function signalAll(node: SimNode): Promise<void> {
  try {
    const { jobs } = await node.mill.jobs.list({ name: travel.name, state: "suspended", limit: 200 });
    await Promise.all(
      jobs.flatMap(({ id }) =>
        (["x", "y"] as const).flatMap((name) =>
          [0, 1].map((value) => node.mill.signal(id, name, value).catch(orRefused)),
        ),
      ),
    );
  } catch (error) {
    orRefused(error);
  }
}

function orRefused(error: unknown): void {
  if (!isMillraceError(error)) throw error;
}
