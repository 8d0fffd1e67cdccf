/**
 * `millrace limits`: the limits with their use, or one of them edited, throttled or reset to what the code defines.
 * With --key the same for one key of a limit.
 */
import type { LimitKeyState, LimitState } from "../../client/limits.ts";
import { duration, text } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { formatInstant } from "../output/format-time.ts";
import { boundOptions, boundsOf, formatBound, formatRate, keyBoundOptions, keyBoundsOf } from "./bounds.ts";
import { settingCommand, verb } from "./setting-command.ts";

const keyOption = { key: text("KEY", "one key of the limit, and not the limit itself") };

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
    show: verb(
      keyOption,
      ({ key }) =>
        async (mill, name) =>
          key === undefined ? await mill.limits.state(name) : await mill.limits.state(name, { key }),
    ),
    edit: verb({ ...boundOptions, ...keyBoundOptions, ...keyOption }, ({ key, ...options }) => {
      const bounds = boundsOf(options);
      const ofEachKey = keyBoundsOf(options);
      const perKey = Object.keys(ofEachKey).length === 0 ? {} : { perKey: ofEachKey };
      if (key !== undefined && perKey.perKey !== undefined)
        throw wrong("--key names one key: give it --concurrency or --rate");
      return async (mill, name) =>
        key === undefined
          ? await mill.limits.edit(name, { ...bounds, ...perKey })
          : await mill.limits.edit(name, bounds, { key });
    }),
    throttle: verb(
      { for: duration("how long nothing passes; longer each time by default"), ...keyOption },
      ({ for: retryAfter, key }) => {
        const given = retryAfter === undefined ? {} : { retryAfter };
        return async (mill, name) =>
          key === undefined
            ? await mill.limits.throttle(name, given)
            : await mill.limits.throttle(name, { ...given, key });
      },
    ),
    reset: verb(
      keyOption,
      ({ key }) =>
        async (mill, name) =>
          key === undefined ? await mill.limits.reset(name) : await mill.limits.reset(name, { key }),
    ),
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
