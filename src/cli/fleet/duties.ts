/**
 * `millrace duties`: what the background duties of all processes have done and quarantined, or one duty run by hand.
 */
import type { DutyView, PartitionDutyView } from "../../client/workers/duty-views.ts";
import type { QuarantinedDutyItem, UnreadableItem } from "../../client/workers/quarantined.ts";
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
    const { processed, errors, missing, outcomes } = await withStore((mill) => mill.duties.run(name));
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
    const [all, quarantined, unreadable] = await withStore((mill) =>
      Promise.all([mill.duties.list(), mill.duties.quarantined(), mill.unreadable.list()]),
    );
    const needed = [...quarantined.map(quarantinedLine), ...unreadable.map(unreadableLine)];
    const lines = all.flatMap((view) => [
      cells(view),
      ...(partitions ? view.partitions.map(partitionCells) : []),
    ]);
    answer({ duties: all, quarantined, unreadable }, () =>
      [
        formatTable(columns, lines),
        ...needed.slice(0, shownMax),
        ...(needed.length > shownMax ? [`and ${needed.length - shownMax} more`] : []),
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

function quarantinedLine({ duty, item, until, failures, error }: QuarantinedDutyItem): string {
  return escapeText(
    `quarantined: ${duty}${named(item)} until ${formatInstant(until)}, after ${failures} failures: ${error}`,
  );
}

function unreadableLine({ item, ref, error }: UnreadableItem): string {
  return escapeText(`unreadable: record${named(item)} (ref ${ref}) cannot be read: ${error}`);
}

const named = (item: string | null): string => (item === null ? "" : ` ${item}`);
