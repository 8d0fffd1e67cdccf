/** `millrace limits`: the limits with their use, or one of them edited, throttled or reset to what the code defines. */
import { formatInstant } from "../format-time.ts";
import { boundOptions, formatBound, formatRate, readBounds } from "../read-bounds.ts";
import { settingCommand } from "../setting-command.ts";

export const limits = settingCommand({
  name: "limits",
  word: "NAME",
  summary: "the limits and what they hold; edit one, let it cool down, or reset it",
  examples: ["limits edit slack --concurrency 3", "limits throttle slack --for 1m", "limits reset slack"],
  verbs: {
    edit: {
      options: boundOptions,
      read: (options) => {
        const bounds = readBounds(options);
        return (mill, name) => mill.limits.edit(name, bounds);
      },
    },
    throttle: {
      options: {
        for: { value: "DURATION", meaning: "how long nothing passes; longer each time by default" },
      },
      read: (options) => {
        const length = options.get("for");
        return (mill, name) => mill.limits.throttle(name, length === undefined ? {} : { retryAfter: length });
      },
    },
    reset: { read: () => (mill, name) => mill.limits.reset(name) },
  },
  list: (mill) => mill.limits.list(),
  columns: [
    { title: "LIMIT", charsMax: 40 },
    { title: "HELD", isNumber: true },
    { title: "AT ONCE", isNumber: true },
    { title: "RATE" },
    { title: "" },
  ],
  cells: ({ name, held, concurrency, rate, learned, defined, coolingUntil }) => [
    name,
    String(held),
    formatBound(concurrency),
    formatRate(rate),
    [
      ...(learned === null ? [] : [`learned ${learned}`]),
      ...(coolingUntil === null ? [] : [`cools down until ${formatInstant(coolingUntil)}`]),
      ...(defined === null ? [] : ["edited"]),
    ].join(", "),
  ],
});
