/**
 * `millrace limits`: the limits with their use, or one of them edited, throttled or reset to what the code defines.
 * With --key the same for one key of a limit.
 */
import type { LimitKeyState, LimitState } from "../../client/limits.ts";
import { formatInstant } from "../output/format-time.ts";
import {
  boundOptions,
  formatBound,
  formatRate,
  perKeyOptions,
  readBounds,
  readPerKey,
} from "./read-bounds.ts";
import { wrong } from "../arguments/read-args.ts";
import { settingCommand } from "./setting-command.ts";

const keyOption = {
  key: { value: "KEY", meaning: "one key of the limit, and not the limit itself" },
} as const;

export const limits = settingCommand<LimitState | LimitKeyState>({
  name: "limits",
  word: "NAME",
  summary: "the limits and what they hold; edit one or a key of it, let it cool down, or reset it",
  examples: [
    "limits edit slack --concurrency 3",
    "limits edit slack --key-concurrency 2",
    "limits show slack --key acme",
    "limits throttle slack --key acme --for 1m",
    "limits reset slack",
  ],
  verbs: {
    show: {
      options: keyOption,
      read: (options) => {
        const key = options.get("key");
        return (mill, name) =>
          key === undefined ? mill.limits.state(name) : mill.limits.state(name, { key });
      },
    },
    edit: {
      options: { ...boundOptions, ...perKeyOptions, ...keyOption },
      read: (options) => {
        const bounds = readBounds(options);
        const key = options.get("key");
        const perKey = readPerKey(options);
        if (key === undefined) return (mill, name) => mill.limits.edit(name, { ...bounds, ...perKey });
        if (perKey.perKey !== undefined) throw wrong("--key names one key: give it --concurrency or --rate");
        return (mill, name) => mill.limits.edit(name, bounds, { key });
      },
    },
    throttle: {
      options: {
        for: { value: "DURATION", meaning: "how long nothing passes; longer each time by default" },
        ...keyOption,
      },
      read: (options) => {
        const length = options.get("for");
        const key = options.get("key");
        const given = length === undefined ? {} : { retryAfter: length };
        return (mill, name) =>
          key === undefined
            ? mill.limits.throttle(name, given)
            : mill.limits.throttle(name, { ...given, key });
      },
    },
    reset: {
      options: keyOption,
      read: (options) => {
        const key = options.get("key");
        return (mill, name) =>
          key === undefined ? mill.limits.reset(name) : mill.limits.reset(name, { key });
      },
    },
  },
  list: (mill) => mill.limits.list(),
  columns: [
    { title: "LIMIT", charsMax: 40 },
    { title: "HELD", isNumber: true },
    { title: "AT ONCE", isNumber: true },
    { title: "RATE" },
    { title: "EACH KEY" },
    { title: "" },
  ],
  cells: (shown) => [
    "key" in shown ? `${shown.name} for ${shown.key}` : shown.name,
    String(shown.held),
    formatBound(shown.concurrency),
    formatRate(shown.rate),
    "key" in shown ? "" : formatEach(shown),
    [
      ...("key" in shown || shown.learned === null ? [] : [`learned ${shown.learned}`]),
      ...(shown.coolingUntil === null ? [] : [`cools down until ${formatInstant(shown.coolingUntil)}`]),
      ...(("key" in shown ? shown.edited : shown.defined) === null ? [] : ["edited"]),
    ].join(", "),
  ],
});

function formatEach({ perKey }: LimitState): string {
  if (perKey === null) return "any";
  const { concurrency, rate } = perKey;
  if (concurrency === null || rate === null)
    return concurrency === null ? formatRate(rate) : formatBound(concurrency);
  return `${concurrency}, ${formatRate(rate)}`;
}
