/**
 * The documents of topics: one each, under the topic's name, so that it lies where the name says. Changed under their
 * versions; what a process remembers of one is only ever used together with a check of its version.
 */
import { MillraceError } from "../../model/error.ts";
import { newTopic, readTopic, writeTopic } from "../../model/events/topic.ts";
import type { Subscription, TopicState } from "../../model/events/topic.ts";
import type { Doc } from "../../store/records.ts";
import type { Needs } from "../services.ts";

export const topicKind = "topic";
/** As many processes as may change one topic in the same moment. */
const triesMax = 100;

export interface FoundTopic {
  readonly name: string;
  readonly version: number;
  /** Null for a document that cannot be read. */
  readonly state: TopicState | null;
  /** Why it cannot be read. */
  readonly problem: string | null;
}

export function foundTopic({ id: name, version, body }: Pick<Doc, "id" | "version" | "body">): FoundTopic {
  try {
    return { name, version, state: readTopic(body), problem: null };
  } catch (problem) {
    return { name, version, state: null, problem: String(problem) };
  }
}

export async function findTopic(needs: Needs<"store">, name: string): Promise<FoundTopic | null> {
  const { docs } = await needs.store.readDocs({ kind: topicKind, ids: [name] });
  return docs[0] === undefined ? null : foundTopic(docs[0]);
}

/** What a topic that must be there and readable has. */
export function stateOf(name: string, found: FoundTopic | null): TopicState {
  if (found === null) throw unknownTopic(name);
  if (found.state !== null) return found.state;
  throw new MillraceError(
    "topic-unreadable",
    `The stored topic ${JSON.stringify(name)} cannot be read by this process: ${found.problem}`,
  );
}

/**
 * Changes a topic under its version, again and again until no other process was faster.
 *
 * @param decide the new state; null for none. A topic that is not there is given as a new one, unless `mustExist`.
 * @returns what there is afterwards.
 */
export async function changeTopic(
  needs: Needs<"store">,
  name: string,
  decide: (state: TopicState) => TopicState | null,
  { mustExist = false } = {},
): Promise<FoundTopic> {
  for (let tries = 0; tries < triesMax; tries++) {
    const found = await findTopic(needs, name);
    const isNew = found === null && !mustExist;
    const next = decide(isNew ? newTopic : stateOf(name, found));
    if (next === null && found !== null) return found;
    const state = next ?? newTopic;
    const guard = found === null ? ("absent" as const) : { version: found.version };
    const [answer] = await needs.store.putDocs([
      { kind: topicKind, id: name, body: writeTopic(state), guard },
    ]);
    if (answer?.kind === "ok") return { name, version: answer.version, state, problem: null };
  }
  throw contendedTopic(name);
}

export function activeOf({ subscriptions }: TopicState): readonly Subscription[] {
  return subscriptions.filter(({ isPaused }) => !isPaused);
}

function unknownTopic(name: string): MillraceError {
  return new MillraceError(
    "unknown-topic",
    `The store knows no topic ${JSON.stringify(name)}. The first subscription makes it, or topics.declare.`,
  );
}

export function contendedTopic(name: string): MillraceError {
  return new MillraceError(
    "version-conflict",
    `The subscriptions of the topic ${JSON.stringify(name)} change all the time; try again.`,
  );
}
