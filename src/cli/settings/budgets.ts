/**
 * `millrace budgets`: the budgets with what was used, or one of them edited, reset or refunded. With --key the same for
 * one key of a budget.
 */
import type { BudgetDetails, BudgetState } from "../../client/budgets.ts";
import { amountMax, boundMax } from "../../model/budgets/budget.ts";
import type { BoundsEdit } from "../../model/budgets/budget.ts";
import { text, whole } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { formatInstant } from "../output/format-time.ts";
import { settingCommand, verb } from "./setting-command.ts";

const keyOption = { key: text("KEY", "one key of the budget, and not the whole budget") };
const bound = (meaning: string) => text("N", `${meaning}; "code" for what the code defines`);
const editOptions = {
  hard: bound("from this amount on it is spent"),
  soft: bound("from this amount on there is a warning"),
  "key-hard": bound("the same as --hard for each key"),
  "key-soft": bound("the same as --soft for each key"),
};

const keyed = (key: string | undefined): { key?: string } => (key === undefined ? {} : { key });

export const budgets = settingCommand<BudgetState | BudgetDetails>({
  name: "budgets",
  word: "NAME",
  summary: "the budgets and what was used of them; edit one or a key of it, reset it, or refund an amount",
  examples: [
    "budgets show tokens --key acme",
    "budgets edit tokens --hard 3000000",
    "budgets refund tokens --amount 5000 --key acme",
    "budgets reset tokens",
  ],
  verbs: {
    show: verb(
      keyOption,
      ({ key }) =>
        (mill, name) =>
          mill.budgets.get(name, keyed(key)),
    ),
    edit: verb({ ...editOptions, ...keyOption }, ({ key, hard, soft, ...ofKeys }) => {
      const bounds = readBounds(hard, soft, "--hard", "--soft");
      const perKey = readBounds(ofKeys["key-hard"], ofKeys["key-soft"], "--key-hard", "--key-soft");
      const hasKeys = Object.keys(perKey).length > 0;
      if (key !== undefined && hasKeys) throw wrong("--key names one key: give it --hard or --soft");
      return (mill, name) =>
        mill.budgets.edit(name, { ...bounds, ...(hasKeys ? { perKey } : {}) }, keyed(key));
    }),
    reset: verb(
      keyOption,
      ({ key }) =>
        (mill, name) =>
          mill.budgets.reset(name, keyed(key)),
    ),
    refund: verb(
      {
        amount: whole("N", "how much is taken back", 1, amountMax),
        period: text("PERIOD", "the period, as `budgets show --json` names it; the present one by default"),
        ...keyOption,
      },
      ({ amount, period, key }) => {
        if (amount === undefined) throw wrong("budgets refund needs --amount");
        return (mill, name) =>
          mill.budgets.refund(name, amount, { ...keyed(key), ...(period === undefined ? {} : { period }) });
      },
    ),
  },
  list: (mill) => mill.budgets.list(),
  columns: [
    { title: "BUDGET", charsMax: 40 },
    { title: "SPENT", isNumber: true },
    { title: "RESERVED", isNumber: true },
    { title: "HARD", isNumber: true },
    { title: "SOFT", isNumber: true },
    { title: "ENDS" },
    { title: "" },
  ],
  cells: (shown) => [
    shown.key === null ? shown.name : `${shown.name} for ${shown.key}`,
    String(shown.spent),
    String(shown.reserved),
    formatBound(shown.hard),
    formatBound(shown.soft),
    formatInstant(shown.endsAt),
    [
      ...(shown.heldUntil === null ? [] : [`spent: holds its jobs until ${formatInstant(shown.heldUntil)}`]),
      ...(shown.edited === null ? [] : ["edited"]),
      ...("periods" in shown
        ? [...shown.keys.slice(0, keysShown), ...shown.periods.slice(1)].map(formatSpend)
        : []),
    ].join(", "),
  ],
});

/** The keys that have used most are shown; `--json` has all. */
const keysShown = 10;

function formatSpend(of: BudgetDetails["keys"][number] | BudgetDetails["periods"][number]): string {
  return "key" in of ? `${of.key}: ${of.spent}` : `since ${formatInstant(of.startsAt)}: ${of.spent}`;
}

function formatBound(amount: number | null): string {
  return amount === null ? "any" : String(amount);
}

function readBounds(
  hard: string | undefined,
  soft: string | undefined,
  ...[hardName, softName]: [string, string]
): BoundsEdit {
  return {
    ...(hard === undefined ? {} : { hard: readBound(hard, hardName) }),
    ...(soft === undefined ? {} : { soft: readBound(soft, softName) }),
  };
}

function readBound(given: string, name: string): number | null {
  if (given === "code") return null;
  const number = /^\d{1,16}$/.test(given) ? Number(given) : 0;
  if (number < 1 || number > boundMax)
    throw wrong(`${name} must be a whole number from 1 to ${boundMax}, or "code"`);
  return number;
}
