/** `millrace queues`: the queues with their settings, or one of them paused, resumed, drained, undrained or set. */
import { formatInstant } from "../output/format-time.ts";
import { formatBackoff, formatKept, queueOptions, readQueueOptions } from "./queue-options.ts";
import { formatBound, formatRate } from "./read-bounds.ts";
import { settingCommand } from "./setting-command.ts";

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
    pause: {
      options: { for: { value: "DURATION", meaning: "it goes on by itself after this long" } },
      read: (options) => {
        const length = options.get("for");
        return (mill, queue) => mill.queues.pause(queue, length === undefined ? {} : { for: length });
      },
    },
    resume: { read: () => (mill, queue) => mill.queues.resume(queue) },
    drain: { read: () => (mill, queue) => mill.queues.drain(queue) },
    undrain: { read: () => (mill, queue) => mill.queues.undrain(queue) },
    set: {
      options: queueOptions,
      read: (options) => {
        const edit = readQueueOptions(options);
        return (mill, queue) => mill.queues.set(queue, edit);
      },
    },
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
