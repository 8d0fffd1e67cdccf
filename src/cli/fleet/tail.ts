/**
 * `millrace tail`: events as they happen, one line each, until a signal comes. With `--json` each line is one JSON
 * document, whose `cursor` a later `--from` continues after.
 */
import type { EventName, MillraceEvent } from "../../model/events/event.ts";
import { list, text, whole } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatInstant } from "../output/format-time.ts";
import { toJsonLine } from "../output/print-json.ts";

export const tail = command({
  name: "tail",
  summary: "events as they happen; Ctrl-C ends it",
  options: {
    from: text("PLACE", "now (default), start, or the cursor of an event, to go on after it"),
    queue: text("QUEUE", "only events of this queue"),
    name: text("NAME", "only events of jobs of this name"),
    tag: text("TAG", "only events of jobs with this tag"),
    job: text("ID", "only events of this job"),
    flow: text("ID", "only events of this flow and its members"),
    kinds: list<EventName>("KINDS", "only these kinds, such as failed,retry-scheduled"),
    limit: whole("N", "end after N events", 1, Number.MAX_SAFE_INTEGER),
  },
  examples: ["tail", "tail --kinds failed --queue email", "tail --from start --limit 100 --json"],
  async run({ terminal, platform, options, withStore, wantsJson }) {
    const { limit = Number.POSITIVE_INFINITY, ...filters } = options;
    const ended = new AbortController();
    const unlisten = platform.onTermination(() => ended.abort());
    const show = wantsJson ? toJsonLine : eventText;
    await withStore(async (mill) => {
      let shown = 0;
      for await (const event of mill.events({ ...filters, signal: ended.signal })) {
        terminal.writeOut(`${show(event)}\n`);
        shown += 1;
        if (shown >= limit) break;
      }
    });
    unlisten();
  },
});

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
