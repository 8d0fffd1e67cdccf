/**
 * `millrace webhooks`: all with their addresses and filters, or one of them shown, added, deleted, paused, resumed or
 * tested; its dead letters, and their redelivery.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { DeadDelivery, WebhookView } from "../../client/webhooks/webhooks.ts";
import type { WebhookOptions } from "../../index.ts";
import type { EventName } from "../../model/events/event.ts";
import type { Platform } from "../../platform/platform.ts";
import { duration, flag, list, text } from "../arguments/option-kinds.ts";
import type { ValuesOf } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { plainVerb, settingCommand, verb } from "./setting-command.ts";
import { storedByName } from "./stored-by-name.ts";

interface ShownWebhook extends WebhookView {
  /** If they were asked for: the newest first. */
  readonly dead?: readonly DeadDelivery[];
  /** The job of a delivery that was made to try the hook. */
  readonly tried?: string;
  /** How many dead deliveries are tried again. */
  readonly redelivered?: number;
}

const deadShownMax = 100;
const addOptions = {
  url: text("URL", "where events are sent to"),
  "secret-env": text("NAME", "the variable of the environment that has the secret"),
  kinds: list<EventName>("A,B", "which kinds of events; all by default"),
  queue: text("QUEUE", "only events of this queue"),
  name: text("NAME", "only events of jobs of this name"),
  tag: text("TAG", "only events of jobs with this tag"),
  timeout: duration("how long one attempt may take; 10s by default"),
  ordered: flag("one delivery at a time, in the order of the events"),
};

const stored = storedByName<ShownWebhook>("webhook", (mill) => mill.webhooks);

export const webhooks = settingCommand<ShownWebhook>({
  name: "webhooks",
  word: "NAME",
  summary: "who gets events by HTTP; add, test, pause or delete one, see and redeliver its dead letters",
  examples: [
    "webhooks",
    "webhooks add billing --url https://billing.example/events --secret-env BILLING_SECRET --kinds failed,completed",
    "webhooks dead billing --json",
    "webhooks redeliver billing",
  ],
  verbs: {
    show: plainVerb(stored.get),
    add: verb(addOptions, (options, platform) => {
      const given = readAdd(options, platform);
      return (mill, name) => mill.webhooks.add(name, given);
    }),
    delete: plainVerb(stored.delete),
    pause: plainVerb((mill, name) => mill.webhooks.pause(name)),
    resume: plainVerb((mill, name) => mill.webhooks.resume(name)),
    test: plainVerb(async (mill, name) => {
      const tried = await mill.webhooks.test(name);
      return { ...(await stored.get(mill, name)), tried };
    }),
    dead: plainVerb(withDead),
    redeliver: verb({ id: text("ID", "only this delivery") }, ({ id }) => async (mill, name) => {
      const view = await stored.get(mill, name);
      if (id === undefined) {
        const { retried } = await mill.webhooks.redeliver({ webhook: name });
        return { ...view, redelivered: retried };
      }
      await mill.webhooks.redeliver({ id });
      return { ...view, redelivered: 1 };
    }),
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

async function withDead(mill: Millrace, name: string): Promise<ShownWebhook> {
  const view = await stored.get(mill, name);
  const dead: DeadDelivery[] = [];
  for await (const delivery of mill.webhooks.dead(name)) if (dead.push(delivery) === deadShownMax) break;
  return { ...view, dead };
}

/** A secret on the command line would stand in lists of processes and histories of shells. */
function readAdd(
  { url, "secret-env": variable, ...others }: ValuesOf<typeof addOptions>,
  platform: Platform,
): WebhookOptions {
  if (url === undefined || variable === undefined) throw wrong("webhooks add needs --url and --secret-env");
  const secret = platform.readEnv(variable);
  if (secret === undefined) throw wrong(`the environment has no variable ${variable}`);
  // Checked by the model, in the words that code gets.
  return { url, secret, ...others };
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
