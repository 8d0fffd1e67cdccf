/**
 * `millrace duties`: what the background duties of all processes have done and quarantined, or one duty run by hand.
 */
import type { DutyView, PartitionDutyView } from "../../client/workers/duty-views.ts";
import type { Quarantined } from "../../client/workers/quarantined.ts";
import { durationText } from "../../model/duration.ts";
import { flag } from "../arguments/option-kinds.ts";
import { action, command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatTable } from "../output/format-table.ts";
import { formatInstant } from "../output/format-time.ts";

const run = action({
  words: "NAME",
  options: {},
  async run({ words: [name = ""], withStore, answer }) {
    const { processed, errors, missing, outcomes } = await withStore((mill) => mill.runDuty(name));
    const counted = Object.entries(outcomes).map(([outcome, count]) => `, ${outcome} ${count}`);
    const passed = missing === undefined ? "" : `; failing partitions passed over: ${missing.join(", ")}`;
    answer(
      { duty: name, processed, errors, ...(missing === undefined ? {} : { missing }), outcomes },
      `${name}: processed ${processed}, errors ${errors}${counted.join("")}${passed}`,
    );
    return errors === 0 ? 0 : 1;
  },
});

export const duties = command({
  name: "duties",
  summary: "what the background duties of all processes have done, or one of them run once",
  options: { partitions: flag("a line for each partition of the store, too") },
  examples: ["duties --partitions", "duties run reclaim", "duties run retention --json"],
  verbs: { run },
  async run({ options: { partitions }, withStore, answer }) {
    const [all, quarantined] = await withStore((mill) => Promise.all([mill.duties(), mill.quarantined()]));
    const lines = all.flatMap((view) => [
      cells(view),
      ...(partitions ? view.partitions.map(partitionCells) : []),
    ]);
    answer({ duties: all, quarantined }, () =>
      [
        formatTable(columns, lines),
        ...quarantined.slice(0, shownMax).map(lineOf),
        ...(quarantined.length > shownMax ? [`and ${quarantined.length - shownMax} more`] : []),
      ].join("\n"),
    );
  },
});

const columns = [
  { title: "DUTY" },
  ...["PROCESSES", "PASSES", "PROCESSED", "ERRORS", "QUARANTINED"].map((title) => ({
    title,
    isNumber: true,
  })),
  { title: "LAST" },
  { title: "PARTITIONS MISSING" },
];

function cells({ duty, lagMs, missing, ...counts }: DutyView): readonly string[] {
  const { processes, passes, processed, errors, quarantined } = counts;
  return [
    duty,
    ...[processes, passes, processed, errors, quarantined].map(String),
    lastOf(lagMs),
    missing.join(", "),
  ];
}

function partitionCells({
  partition,
  processed,
  errors,
  quarantined,
  lagMs,
}: PartitionDutyView): readonly string[] {
  return [
    `  partition ${partition}`,
    "",
    "",
    ...[processed, errors, quarantined].map(String),
    lastOf(lagMs),
    "",
  ];
}

function lastOf(lagMs: number | null): string {
  return lagMs === null ? "" : `${durationText(lagMs)} ago`;
}

/** Quarantined items and unreadable records, below the table; `--json` has all. */
const shownMax = 50;

function lineOf(each: Quarantined): string {
  const of = each.item === null ? "" : ` ${each.item}`;
  const sentence =
    each.duty === null
      ? `unreadable: record${of} (ref ${each.ref}) cannot be read: ${each.error}`
      : `quarantined: ${each.duty}${of} until ${formatInstant(each.until)}, after ${each.failures} failures: ${each.error}`;
  return escapeText(sentence);
}
