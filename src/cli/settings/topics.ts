/**
 * `millrace topics`: all with their subscriptions, or one of them shown, declared, published to or deleted, and its
 * subscriptions added, deleted, paused and resumed.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { TopicView } from "../../client/topics.ts";
import { job, topic } from "../../index.ts";
import { MillraceError } from "../../model/error.ts";
import { json, text } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { plainVerb, settingCommand, verb } from "./setting-command.ts";
import type { Verb } from "./setting-command.ts";
import { storedByName } from "./stored-by-name.ts";

interface ShownTopic extends TopicView {
  /** Of a publish: the jobs that it made, by subscription. */
  readonly published?: Readonly<Record<string, string>>;
}

const subscriptionOption = { subscription: text("NAME", "which subscription of the topic") };
const subscribeOptions = {
  ...subscriptionOption,
  job: text("NAME", "the job that each publish makes"),
  queue: text("QUEUE", "the queue that its jobs go to"),
};
const publishOptions = {
  input: json("what is published"),
  id: text("ID", "an id of your own: published again it makes no second job"),
};

const stored = storedByName<ShownTopic>("topic", (mill) => mill.topics);

function onSubscription(
  name: string,
  act: (mill: Millrace, topic: string, subscription: string) => Promise<unknown>,
): Verb<ShownTopic> {
  return verb(subscriptionOption, ({ subscription }) => {
    if (subscription === undefined) throw wrong(`topics ${name} needs --subscription`);
    return async (mill, of) => {
      await act(mill, of, subscription);
      return stored.get(mill, of);
    };
  });
}

export const topics = settingCommand<ShownTopic>({
  name: "topics",
  word: "TOPIC",
  summary: "the topics and who gets what is published to them; change them, or publish",
  examples: [
    "topics",
    "topics subscribe user.created --job send-welcome --queue email",
    "topics pause user.created --subscription send-welcome",
    `topics publish user.created --input '{"userId":"42"}' --json`,
  ],
  verbs: {
    show: plainVerb(stored.get),
    declare: plainVerb((mill, name) => mill.topics.declare(name)),
    subscribe: verb(subscribeOptions, ({ job: of, subscription: name, queue }) => {
      if (of === undefined) throw wrong("topics subscribe needs --job");
      const given = { ...(queue === undefined ? {} : { queue }), ...(name === undefined ? {} : { name }) };
      return (mill, to) => mill.topics.subscribe(topic(to), job(of), given);
    }),
    unsubscribe: onSubscription("unsubscribe", async (mill, name, subscription) => {
      if (await mill.topics.unsubscribe(name, subscription)) return;
      throw new MillraceError(
        "unknown-subscription",
        `The topic ${JSON.stringify(name)} has no subscription ${JSON.stringify(subscription)}.`,
      );
    }),
    pause: onSubscription("pause", (mill, name, subscription) => mill.topics.pause(name, subscription)),
    resume: onSubscription("resume", (mill, name, subscription) => mill.topics.resume(name, subscription)),
    publish: verb(publishOptions, ({ input, ...id }) => async (mill, name) => {
      const made = await mill.publish(topic(name), input, id);
      const entries = made.map(({ subscription, handle }) => [subscription, handle.id] as const);
      return { ...(await stored.get(mill, name)), published: Object.fromEntries(entries) };
    }),
    delete: plainVerb(stored.delete),
  },
  list: (mill) => mill.topics.list(),
  columns: [{ title: "TOPIC", charsMax: 40 }, { title: "SUBSCRIPTIONS", charsMax: 120 }, { title: "" }],
  cells: ({ name, subscriptions, problem, published }) => [
    name,
    subscriptions.map(subscriptionText).join(", ") || "none",
    [
      ...(problem === null ? [] : [problem]),
      ...(published === undefined ? [] : [`${Object.keys(published).length} jobs made`]),
    ].join("; "),
  ],
});

function subscriptionText({ name, job: of, queue, paused }: TopicView["subscriptions"][number]): string {
  const what = name === of ? "" : ` (${of})`;
  return `${name}${what} in ${queue}${paused ? ", paused" : ""}`;
}
