/** `millrace queues`: the queues with their settings, or one of them paused, resumed, drained, undrained or set. */
import { text } from "../arguments/option-kinds.ts";
import { formatInstant } from "../output/format-time.ts";
import { formatBackoff, formatKept, queueOptions, readQueueOptions } from "./queue-options.ts";
import { formatBound, formatRate } from "./bounds.ts";
import { plainVerb, settingCommand, verb } from "./setting-command.ts";

export const queues = settingCommand({
  name: "queues",
  word: "QUEUE",
  summary: "the queues and their settings; pause, drain or bound one for all processes",
  examples: [
    "queues pause email --for 10m",
    "queues set email --rate 100/1m --attempts 5",
    "queues drain email",
  ],
  verbs: {
    pause: verb(
      { for: text("DURATION", "it goes on by itself after this long") },
      (options) => (mill, queue) => mill.queues.pause(queue, options),
    ),
    resume: plainVerb((mill, queue) => mill.queues.resume(queue)),
    drain: plainVerb((mill, queue) => mill.queues.drain(queue)),
    undrain: plainVerb((mill, queue) => mill.queues.undrain(queue)),
    set: verb(queueOptions, (options) => {
      const edit = readQueueOptions(options);
      return (mill, queue) => mill.queues.set(queue, edit);
    }),
  },
  list: (mill) => mill.queues.list(),
  columns: [
    { title: "QUEUE", charsMax: 40 },
    { title: "CLAIMS" },
    { title: "INTAKE" },
    { title: "AT ONCE", isNumber: true },
    { title: "RATE" },
    { title: "TOTAL", isNumber: true },
    { title: "LOCAL", isNumber: true },
    { title: "ATTEMPTS", isNumber: true },
    { title: "BACKOFF" },
    { title: "KEPT" },
  ],
  cells: ({ queue, paused, pausedUntil, draining, concurrency, rate, ...jobs }) => [
    queue,
    paused ? `paused${pausedUntil === null ? "" : ` until ${formatInstant(pausedUntil)}`}` : "open",
    draining ? "draining" : "open",
    formatBound(concurrency),
    formatRate(rate),
    String(jobs.total ?? ""),
    String(jobs.localConcurrency ?? ""),
    String(jobs.attempts ?? ""),
    formatBackoff(jobs.backoff),
    formatKept(jobs.retention),
  ],
});
