/**
 * `millrace topics`: all with their subscriptions, or one of them shown, declared, published to or deleted, and its
 * subscriptions added, removed, paused and resumed.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { TopicView } from "../../client/topics.ts";
import { job, topic } from "../../index.ts";
import { MillraceError } from "../../model/error.ts";
import { readJson, wrong } from "../arguments/read-args.ts";
import { settingCommand } from "./setting-command.ts";

interface ShownTopic extends TopicView {
  /** Of a publish: the jobs that it made, by subscription. */
  readonly published?: Readonly<Record<string, string>>;
}

const subscriptionOption = {
  subscription: { value: "NAME", meaning: "which subscription of the topic" },
} as const;
const subscribeOptions = {
  subscription: { value: "NAME", meaning: "which subscription of the topic" },
  job: { value: "NAME", meaning: "the job that each publish makes" },
  queue: { value: "QUEUE", meaning: "the queue that its jobs go to" },
} as const;
const publishOptions = {
  input: { value: "JSON", meaning: "what is published" },
  id: { value: "ID", meaning: "an id of your own: published again it makes no second job" },
} as const;

type Act = (mill: Millrace, name: string, subscription: string) => Promise<unknown>;

const onSubscription = (verb: string, act: Act) => ({
  options: subscriptionOption,
  read: (options: ReadonlyMap<string, string>) => {
    const subscription = options.get("subscription");
    if (subscription === undefined) throw wrong(`topics ${verb} needs --subscription`);
    return async (mill: Millrace, name: string): Promise<ShownTopic> => {
      await act(mill, name, subscription);
      return mustGet(mill, name);
    };
  },
});

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
    show: { read: () => mustGet },
    declare: { read: () => (mill, name) => mill.topics.declare(name) },
    subscribe: {
      options: subscribeOptions,
      read: (options) => {
        const [of, queue, name] = [options.get("job"), options.get("queue"), options.get("subscription")];
        if (of === undefined) throw wrong("topics subscribe needs --job");
        const given = { ...(queue === undefined ? {} : { queue }), ...(name === undefined ? {} : { name }) };
        return (mill, to) => mill.topics.subscribe(topic(to), job(of), given);
      },
    },
    unsubscribe: onSubscription("unsubscribe", async (mill, name, subscription) => {
      if (await mill.topics.unsubscribe(name, subscription)) return;
      throw new MillraceError(
        "unknown-subscription",
        `The topic ${JSON.stringify(name)} has no subscription ${JSON.stringify(subscription)}.`,
      );
    }),
    pause: onSubscription("pause", (mill, name, subscription) => mill.topics.pause(name, subscription)),
    resume: onSubscription("resume", (mill, name, subscription) => mill.topics.resume(name, subscription)),
    publish: {
      options: publishOptions,
      read: (options) => {
        const [text, id] = [options.get("input"), options.get("id")];
        const input = text === undefined ? undefined : readJson(text, "The input");
        return async (mill, name) => {
          const made = await mill.publish(topic(name), input, id === undefined ? {} : { id });
          const entries = made.map(({ subscription, handle }) => [subscription, handle.id] as const);
          return { ...(await mustGet(mill, name)), published: Object.fromEntries(entries) };
        };
      },
    },
    delete: {
      read: () => async (mill, name) => {
        const last = await mustGet(mill, name);
        await mill.topics.delete(name);
        return last;
      },
    },
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

async function mustGet(mill: Millrace, name: string): Promise<ShownTopic> {
  const view = await mill.topics.get(name);
  if (view !== null) return view;
  throw new MillraceError("unknown-topic", `The store knows no topic ${JSON.stringify(name)}.`);
}

function subscriptionText({ name, job: of, queue, paused }: TopicView["subscriptions"][number]): string {
  const what = name === of ? "" : ` (${of})`;
  return `${name}${what} in ${queue}${paused ? ", paused" : ""}`;
}
