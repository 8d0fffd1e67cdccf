/**
 * `millrace webhooks`: all with their addresses and filters, or one of them shown, added, removed, paused, resumed or
 * tried; its dead letters, and their redelivery.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { DeadDelivery, WebhookView } from "../../client/webhooks/webhooks.ts";
import type { WebhookOptions } from "../../index.ts";
import { MillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import { readList, wrong } from "../arguments/read-args.ts";
import { settingCommand } from "./setting-command.ts";

interface ShownWebhook extends WebhookView {
  /** Where they were asked for, the newest first. */
  readonly dead?: readonly DeadDelivery[];
  /** The job of a delivery that was made to try the hook. */
  readonly tried?: string;
  /** How many dead deliveries are tried again. */
  readonly redelivered?: number;
}

const deadShownMax = 100;
const addOptions = {
  url: { value: "URL", meaning: "where events are sent to" },
  "secret-env": { value: "NAME", meaning: "the variable of the environment that has the secret" },
  kinds: { value: "A,B", meaning: "which kinds of events; all by default" },
  queue: { value: "QUEUE", meaning: "only events of this queue" },
  name: { value: "NAME", meaning: "only events of jobs of this name" },
  tag: { value: "TAG", meaning: "only events of jobs with this tag" },
  timeout: { value: "DURATION", meaning: "how long one attempt may take; 10s by default" },
  ordered: { meaning: "one delivery at a time, in the order of the events" },
} as const;

export const webhooks = settingCommand<ShownWebhook>({
  name: "webhooks",
  word: "NAME",
  summary: "who is told of events by HTTP; add, try, pause or remove one, see and redeliver its dead letters",
  examples: [
    "webhooks",
    "webhooks add billing --url https://billing.example/events --secret-env BILLING_SECRET --kinds failed,completed",
    "webhooks dead billing --json",
    "webhooks redeliver billing",
  ],
  verbs: {
    show: { read: () => mustGet },
    add: {
      options: addOptions,
      read: (options, platform) => {
        const given = readAdd(options, platform);
        return (mill, name) => mill.webhooks.add(name, given);
      },
    },
    remove: {
      read: () => async (mill, name) => {
        const last = await mustGet(mill, name);
        await mill.webhooks.remove(name);
        return last;
      },
    },
    pause: { read: () => (mill, name) => mill.webhooks.pause(name) },
    resume: { read: () => (mill, name) => mill.webhooks.resume(name) },
    test: {
      read: () => async (mill, name) => {
        const tried = await mill.webhooks.test(name);
        return { ...(await mustGet(mill, name)), tried };
      },
    },
    dead: { read: () => withDead },
    redeliver: {
      options: { id: { value: "ID", meaning: "only this delivery" } },
      read: (options) => async (mill, name) => {
        const view = await mustGet(mill, name);
        const id = options.get("id");
        if (id === undefined) {
          const { replayed } = await mill.webhooks.redeliver({ webhook: name });
          return { ...view, redelivered: replayed };
        }
        await mill.webhooks.redeliver({ id });
        return { ...view, redelivered: 1 };
      },
    },
  },
  list: (mill) => mill.webhooks.list(),
  columns: [
    { title: "WEBHOOK", charsMax: 40 },
    { title: "URL", charsMax: 60 },
    { title: "EVENTS", charsMax: 60 },
    { title: "" },
  ],
  cells: (view) => [view.name, view.url, eventsText(view), stateText(view)],
});

async function mustGet(mill: Millrace, name: string): Promise<ShownWebhook> {
  const view = await mill.webhooks.get(name);
  if (view !== null) return view;
  throw new MillraceError("unknown-webhook", `There is no webhook ${JSON.stringify(name)}.`);
}

async function withDead(mill: Millrace, name: string): Promise<ShownWebhook> {
  const view = await mustGet(mill, name);
  const dead: DeadDelivery[] = [];
  for await (const delivery of mill.webhooks.dead(name)) if (dead.push(delivery) === deadShownMax) break;
  return { ...view, dead };
}

/** A secret on the command line would stand in lists of processes and histories of shells. */
function readAdd(options: ReadonlyMap<string, string>, platform: Platform): WebhookOptions {
  const [url, variable] = [options.get("url"), options.get("secret-env")];
  if (url === undefined || variable === undefined) throw wrong("webhooks add needs --url and --secret-env");
  const secret = platform.readEnv(variable);
  if (secret === undefined) throw wrong(`the environment has no variable ${variable}`);
  const kinds = readList(options, "kinds");
  const texts = ["queue", "name", "tag", "timeout"].flatMap((key) => {
    const text = options.get(key);
    return text === undefined ? [] : [[key, text] as const];
  });
  // Checked by the model, in the words that code gets.
  return {
    ...{ url, secret, ordered: options.has("ordered"), ...Object.fromEntries(texts) },
    ...(kinds === undefined ? {} : { kinds: kinds as NonNullable<WebhookOptions["kinds"]> }),
  };
}

function eventsText({ kinds, queue, jobName, tag }: WebhookView): string {
  const filters = [
    queue === null ? null : `queue ${queue}`,
    jobName === null ? null : `name ${jobName}`,
    tag === null ? null : `tag ${tag}`,
  ];
  return [kinds?.join(", ") ?? "all kinds", ...filters.filter((each) => each !== null)].join("; ");
}

function stateText({ paused, ordered, gaps, dead, tried, redelivered }: ShownWebhook): string {
  const parts = [
    paused ? "paused" : null,
    ordered ? "ordered" : null,
    gaps === 0 ? null : `${gaps} gaps`,
    tried === undefined ? null : `tried by the job ${tried}`,
    redelivered === undefined ? null : `${redelivered} tried again`,
    dead === undefined ? null : `${dead.length} dead: ${dead.map(({ id }) => id).join(", ") || "none"}`,
  ];
  return parts.filter((part) => part !== null).join("; ");
}
