/** `millrace duties`: what the background duties of all processes have done and left alone, or one duty run by hand. */
import type { DutyView, PartitionDutyView } from "../../client/workers/duty-views.ts";
import type { Quarantined } from "../../client/workers/quarantined.ts";
import { durationText } from "../../model/duration.ts";
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatTable } from "../output/format-table.ts";
import { formatInstant } from "../output/format-time.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { quote, wrong } from "../arguments/read-args.ts";

export const duties: Command = {
  name: "duties",
  usage: "duties [--partitions] | duties run NAME",
  summary: "what the background duties of all processes have done, or one of them run once",
  words: [0, 2],
  options: {
    ...storeOption,
    partitions: { meaning: "a line for each partition of the store, too" },
  },
  examples: ["duties --partitions", "duties run reclaim", "duties run retention --json"],
  async run(call) {
    const [verb, name] = call.words;
    if (verb === undefined) return listDuties(call);
    if (verb !== "run") throw wrong(`duties knows the verb run, not ${quote(verb)}`);
    if (name === undefined) throw wrong("duties run needs a NAME");
    return runDuty(call, name);
  },
};

const columns = [
  { title: "DUTY" },
  ...["PROCESSES", "PASSES", "PROCESSED", "ERRORS", "LEFT ALONE"].map((title) => ({ title, isNumber: true })),
  { title: "LAST" },
  { title: "PARTITIONS MISSING" },
];

function cells({ duty, lagMs, missing, ...counts }: DutyView): readonly string[] {
  const { processes, passes, processed, errors, leftAlone } = counts;
  return [
    duty,
    ...[processes, passes, processed, errors, leftAlone].map(String),
    lastOf(lagMs),
    missing.join(", "),
  ];
}

function partitionCells({
  partition,
  processed,
  errors,
  leftAlone,
  lagMs,
}: PartitionDutyView): readonly string[] {
  return [
    `  partition ${partition}`,
    "",
    "",
    ...[processed, errors, leftAlone].map(String),
    lastOf(lagMs),
    "",
  ];
}

function lastOf(lagMs: number | null): string {
  return lagMs === null ? "" : `${durationText(lagMs)} ago`;
}

async function listDuties(call: Call): Promise<number> {
  const [all, quarantined] = await withMillrace(call, await existingStoreUrl(call), (mill) =>
    Promise.all([mill.duties(), mill.quarantined()]),
  );
  const rows = all.flatMap((view) => [
    cells(view),
    ...(call.options.has("partitions") ? view.partitions.map(partitionCells) : []),
  ]);
  const table = formatTable(columns, rows);
  call.terminal.writeOut(
    call.wantsJson
      ? `${toJson({ duties: all, quarantined })}\n`
      : [table, ...quarantined.slice(0, shownMax).map(lineOf), ...moreOf(quarantined.length), ""].join("\n"),
  );
  return 0;
}

/** Items and records that are left alone, below the table; `--json` has all. */
const shownMax = 50;

function lineOf(each: Quarantined): string {
  const of = each.item === null ? "" : ` ${each.item}`;
  const sentence =
    each.duty === null
      ? `set aside: record${of} (ref ${each.ref}) cannot be read: ${each.error}`
      : `left alone: ${each.duty}${of} until ${formatInstant(each.until)}, after ${each.failures} failures: ${each.error}`;
  return escapeText(sentence);
}

function moreOf(count: number): readonly string[] {
  return count > shownMax ? [`and ${count - shownMax} more`] : [];
}

async function runDuty(call: Call, name: string): Promise<number> {
  const { terminal, wantsJson } = call;
  const { processed, errors, missing, outcomes } = await withMillrace(
    call,
    await existingStoreUrl(call),
    (mill) => mill.runDuty(name),
  );
  const told = Object.entries(outcomes).map(([outcome, count]) => `, ${outcome} ${count}`);
  const passed = missing === undefined ? "" : `; failing partitions passed over: ${missing.join(", ")}`;
  terminal.writeOut(
    wantsJson
      ? `${toJson({ duty: name, processed, errors, ...(missing === undefined ? {} : { missing }), outcomes })}\n`
      : `${name}: processed ${processed}, errors ${errors}${told.join("")}${passed}\n`,
  );
  return errors === 0 ? 0 : 1;
}
