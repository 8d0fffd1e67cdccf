/**
 * What a store keeps of a topic: its subscriptions by name, each with the job that a publish makes for it. A topic is
 * one document, so a publish can check that it was made from the newest list by one version.
 *
 *   - Declaring the same subscription again changes nothing; another definition replaces it.
 *   - A pause is not part of the definition: only a resume or an unsubscribe ends it.
 *
 * The text keeps fields of a newer version, so that two versions can write one topic in turn.
 */
import { deriveId } from "../job/job-id.ts";

export interface Subscription {
  readonly name: string;
  /** The job without id and input, as a text. */
  readonly job: string;
  /** Paused: it gets no job of a publish. */
  readonly isPaused: boolean;
}

export interface TopicState {
  /** By name; each name once. */
  readonly subscriptions: readonly Subscription[];
  /** Fields of a newer version, as they were read. */
  readonly others: Readonly<Record<string, unknown>>;
}

export const subscriptionsMax = 500;

export const newTopic: TopicState = { subscriptions: [], others: {} };

/** Null if nothing changes. */
export function afterSubscribe(
  state: TopicState,
  { name, job }: Pick<Subscription, "name" | "job">,
): TopicState | null {
  const known = find(state, name);
  if (known?.job === job) return null;
  return withOne(state, { isPaused: false, ...known, name, job });
}

/** Null if there is no such subscription. */
export function afterUnsubscribe(state: TopicState, name: string): TopicState | null {
  if (find(state, name) === undefined) return null;
  return { ...state, subscriptions: state.subscriptions.filter((each) => each.name !== name) };
}

/** Null if nothing changes; undefined if there is no such subscription. */
export function afterPause(
  state: TopicState,
  name: string,
  isPaused: boolean,
): TopicState | null | undefined {
  const known = find(state, name);
  if (known === undefined) return undefined;
  return known.isPaused === isPaused ? null : withOne(state, { ...known, isPaused });
}

function find({ subscriptions }: TopicState, name: string): Subscription | undefined {
  return subscriptions.find((each) => each.name === name);
}

function withOne(state: TopicState, one: Subscription): TopicState {
  const others = state.subscriptions.filter(({ name }) => name !== one.name);
  const subscriptions = [...others, one].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return { ...state, subscriptions };
}

export function writeTopic({ subscriptions, others }: TopicState): string {
  return JSON.stringify({ ...others, subscriptions });
}

/** Throws if the text is no topic. */
export function readTopic(text: string): TopicState {
  const { subscriptions, ...others } = JSON.parse(text) as { subscriptions?: unknown };
  if (!Array.isArray(subscriptions)) throw new TypeError("The stored topic has no list of subscriptions.");
  for (const { name, job, isPaused } of subscriptions as Partial<Subscription>[])
    if (typeof name !== "string" || typeof job !== "string" || typeof isPaused !== "boolean")
      throw new TypeError("The stored topic has a subscription that cannot be read.");
  return { subscriptions: subscriptions as Subscription[], others };
}

/** Names have no control characters, so joining three of them with this one is unambiguous. */
const partEnd = "\x1f";

/**
 * The id of the job that a publish with a given id makes for a subscription: publishing again makes the same id. It has
 * the form of a minted id, which carries the partition.
 */
export function publishedId(
  { topic, id, subscription }: { readonly topic: string; readonly id: string; readonly subscription: string },
  partition: number,
): string {
  return deriveId({ of: ["topic", topic, id, subscription].join(partEnd), at: 0, partition });
}
