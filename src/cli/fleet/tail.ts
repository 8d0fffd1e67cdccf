/**
 * `millrace tail`: events as they happen, one line each, until a signal comes. With `--json` each line is one JSON
 * document, whose `cursor` a later `--from` goes on behind.
 */
import type { EventsOptions } from "../../client/open-events.ts";
import type { EventName, MillraceEvent } from "../../model/events/event.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatInstant } from "../output/format-time.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJsonLine } from "../output/print-json.ts";
import { readList, readWhole } from "../arguments/read-args.ts";

export const tail: Command = {
  name: "tail",
  usage: "tail [--from PLACE] [FILTERS]",
  summary: "events as they happen; Ctrl-C ends it",
  words: [0, 0],
  options: {
    ...storeOption,
    from: { value: "PLACE", meaning: "now (default), start, or the cursor of an event, to go on behind it" },
    queue: { value: "QUEUE", meaning: "only events of this queue" },
    name: { value: "NAME", meaning: "only events of jobs of this name" },
    tag: { value: "TAG", meaning: "only events of jobs with this tag" },
    job: { value: "ID", meaning: "only events of this job" },
    flow: { value: "ID", meaning: "only events of this flow and its members" },
    kinds: { value: "KINDS", meaning: "only these kinds, such as failed,retry-scheduled" },
    limit: { value: "N", meaning: "end after so many events" },
  },
  examples: ["tail", "tail --kinds failed --queue email", "tail --from start --limit 100 --json"],
  async run(call) {
    const { terminal, platform, options, wantsJson } = call;
    const max = readWhole(options, "limit", [1, Number.MAX_SAFE_INTEGER]) ?? Number.POSITIVE_INFINITY;
    const ended = new AbortController();
    const unlisten = platform.onTermination(() => ended.abort());
    const show = wantsJson ? toJsonLine : eventText;
    await withMillrace(call, await existingStoreUrl(call), async (mill) => {
      let shown = 0;
      for await (const event of mill.events({ ...readFilters(options), signal: ended.signal })) {
        terminal.writeOut(`${show(event)}\n`);
        shown += 1;
        if (shown >= max) break;
      }
    });
    unlisten();
    return 0;
  },
};

function readFilters(options: ReadonlyMap<string, string>): EventsOptions {
  const texts = ["from", "queue", "name", "tag", "job", "flow"].flatMap((key) => {
    const text = options.get(key);
    return text === undefined ? [] : [[key, text] as const];
  });
  const kinds = readList(options, "kinds");
  return { ...Object.fromEntries(texts), ...(kinds === undefined ? {} : { kinds: kinds as EventName[] }) };
}

/** What is shown in columns, or says nothing more than the kind. */
const notRepeated = new Set([
  "cursor",
  "kind",
  "at",
  "jobId",
  "queue",
  "name",
  "state",
  "attempt",
  "flowId",
  "flow",
]);

function eventText(event: MillraceEvent): string {
  const { at, kind, jobId, queue, name, attempt } = event;
  const ofFlow = "flowId" in event ? `${name} ${event.flowId}` : (queue ?? "");
  const subject = jobId === null ? ofFlow : `${name} ${jobId} in ${queue}`;
  const run = attempt === null || attempt === 0 ? "" : `  attempt ${attempt}`;
  const details = Object.entries(event).filter(([key, value]) => !notRepeated.has(key) && value !== null);
  const rest = details.length === 0 ? "" : `  ${toJsonLine(Object.fromEntries(details))}`;
  return `${formatInstant(at)}  ${kind}  ${escapeText(subject)}${run}${rest}`;
}
