/**
 * `mill.events(...)` and `mill.on(...)`, with their options checked. If a listener throws, the error is logged; the
 * job, the other listeners and its own next event are not affected.
 */
import type { Needs } from "../engine/services.ts";
import type { Events } from "../engine/events/events.ts";
import type { EventFilter } from "../engine/events/show-events.ts";
import type { Subscription } from "../engine/events/subscription.ts";
import { eventNames, isEventName } from "../model/events/event.ts";
import type { EventName, MillraceEvent } from "../model/events/event.ts";
import { checkName } from "../model/name.ts";
import { checkOptions, invalidOption } from "../model/option.ts";

/** Which events; all of these conditions must hold. */
export interface EventConditions {
  queue?: string;
  /** The name of the jobs. */
  name?: string;
  /** The id of one job. */
  job?: string;
  /** The id of one flow: its own events, and those of its members. */
  flow?: string;
  /** A tag of the jobs. The job of each event is read for it; events of deleted jobs do not pass. */
  tag?: string;
}

export interface EventsOptions<Kind extends EventName = EventName> extends EventConditions {
  /**
   * Where to begin: "now" (default), "start" for everything that is kept, or the cursor of an event, to go on after it.
   */
  from?: string;
  kinds?: Kind | readonly Kind[];
  /** Ends the loop. */
  signal?: AbortSignal;
}

/** The events of a store, for `for await`. It ends if the loop is left, the signal fires or Millrace closes. */
export type EventStream<Kind extends EventName = EventName> = AsyncIterableIterator<
  MillraceEvent<Kind>,
  undefined
> &
  AsyncDisposable;

const conditions = ["queue", "name", "job", "flow", "tag"];
const known = ["from", ...conditions, "kinds", "signal"];

export function openEvents(events: Events, options: EventsOptions): EventStream {
  checkOptions(options, "events", known);
  const { from = "now", signal } = options;
  if (typeof from !== "string") throw invalidOption('events: from must be "now", "start" or a cursor.');
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalidOption("events: signal must be an AbortSignal.");
  const filter = readEventFilter(options, "events");
  const subscription = events.subscribe({ from, filter, keepsAlive: true });
  if (signal?.aborted === true) subscription.end();
  else signal?.addEventListener("abort", () => subscription.end(), { once: true });
  return subscription;
}

function readEventFilter({ queue, name, job, flow, tag, kinds }: EventsOptions, what: string): EventFilter {
  const texts = Object.entries({ queue, name, job, flow, tag }).filter(([, text]) => text !== undefined);
  for (const [key, text] of texts) checkName(text, `${what}: ${key}`);
  const listed = kinds === undefined || Array.isArray(kinds) ? kinds : [kinds];
  if (listed?.length === 0) throw invalidOption("events: kinds is empty; leave it out for all kinds.");
  return {
    ...Object.fromEntries(texts),
    ...(listed === undefined ? {} : { kinds: new Set((listed as unknown[]).map(checkKind)) }),
  };
}

function checkKind(value: unknown): EventName {
  if (isEventName(value)) return value;
  throw invalidOption(
    `${JSON.stringify(String(value).slice(0, 80))} is not a kind of event; known are ${eventNames.join(", ")}.`,
  );
}

/** @returns a function that ends the subscription. */
export function listen<Kind extends EventName>(
  { log, repeated }: Needs<"log" | "repeated">,
  events: Events,
  kind: Kind,
  listener: (event: MillraceEvent<Kind>) => unknown,
  options: EventConditions,
): () => void {
  if (typeof listener !== "function") throw invalidOption("on: the listener must be a function.");
  checkOptions(options, "on", conditions);
  const filter = { ...readEventFilter(options, "on"), kinds: new Set([checkKind(kind)]) };
  const subscribe = (): Subscription => events.subscribe({ from: "now", filter, keepsAlive: false });
  let subscription = subscribe();
  let isOff = false;
  const threw = (error: unknown): void =>
    repeated.say("error", `a listener for the event "${kind}" threw; it goes on with the next one`, {
      error,
    });
  const deliver = async (): Promise<void> => {
    for await (const event of subscription) {
      try {
        // Not awaited: a listener that never returns must not hold up the next event.
        void Promise.resolve(listener(event as MillraceEvent<Kind>)).catch(threw);
      } catch (error) {
        threw(error);
      }
    }
  };
  /** The feed was emptied, lost writes, or was pruned past a slow listener: the listener goes on with new events. */
  const goOn = (error: unknown): void => {
    log.warn(`a listener for "${kind}" missed events; it goes on from now`, { error });
    if (isOff || events.isClosed) return;
    subscription = subscribe();
    deliver().catch(goOn);
  };
  deliver().catch(goOn);
  return () => {
    isOff = true;
    subscription.end();
  };
}
