/** `millrace list`: jobs, newest first, one page at a time. */
import type { JobView } from "../../client/jobs/job-view.ts";
import { jobStates } from "../../model/job/job-state.ts";
import { text, whole } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import { waitingTable } from "../durable/list-waiting.ts";
import { firstFound } from "../output/first-found.ts";
import { formatTable } from "../output/format-table.ts";
import { formatAge } from "../output/format-time.ts";
import { heldText } from "./held-text.ts";
import { filterOptions, queryOf } from "./job-query.ts";
import { jobShape } from "./job-shape.ts";

export const list = command({
  name: "list",
  summary: "jobs, newest first",
  options: {
    ...filterOptions(jobStates),
    awaits: text(
      "SIGNAL",
      "suspended durable runs that wait for this signal; beside it only --queue and --name",
    ),
    limit: whole("N", "at most N, 1 to 500; 50 by default", 1, 500),
    cursor: text("CURSOR", "go on where the previous page ended"),
  },
  examples: [
    "list --state failed",
    "list --queue email --after 2h --limit 10 --json",
    "list --state suspended",
    "list --awaits paid",
  ],
  async run({ options: { limit = 50, cursor: from = null, awaits, ...filter }, ...call }) {
    const { terminal, platform, withStore, answer, wantsJson } = call;
    if (awaits !== undefined) {
      const { queue, name, ...others } = filter;
      const [other] = Object.keys(others);
      if (other !== undefined) throw wrong(`--awaits goes with --queue and --name, not with --${other}`);
      const of = { ...(queue === undefined ? {} : { queue }), ...(name === undefined ? {} : { name }) };
      const page = await withStore((mill) =>
        mill.runs.waiting({ ...of, signal: awaits, limit, cursor: from }),
      );
      answer(page, () =>
        [waitingTable(page.runs, awaits, platform.now()), ...moreText(page.cursor)].join("\n"),
      );
      return;
    }
    const query = { ...queryOf(filter), limit };
    const { jobs, cursor, missing } = await withStore((mill) =>
      firstFound(
        from,
        (at) => mill.jobs.list({ ...query, cursor: at }),
        (page) => page.jobs,
      ),
    );
    const now = platform.now();
    answer({ jobs: jobs.map(jobShape), cursor, missing: missing ?? [] }, () =>
      [
        jobs.length === 0
          ? "no jobs"
          : formatTable(
              columns,
              jobs.map((job) => cells(job, now)),
            ),
        ...moreText(cursor),
      ].join("\n"),
    );
    if (missing !== undefined && !wantsJson)
      terminal.writeErr(`missing: the jobs of partition ${missing.join(", ")}, which fails\n`);
  },
});

function moreText(cursor: string | null): readonly string[] {
  return cursor === null ? [] : [`more: add --cursor=${cursor}`];
}

const columns = [
  { title: "ID", charsMax: 40 },
  { title: "NAME", charsMax: 28 },
  { title: "QUEUE", charsMax: 20 },
  { title: "STATE" },
  { title: "TRY", isNumber: true },
  { title: "CREATED" },
  { title: "", charsMax: 60 },
];

function cells(job: JobView, now: number): readonly string[] {
  const tries = `${job.attempt}/${job.attemptsMax}`;
  return [job.id, job.name, job.queue, job.state, tries, formatAge(job.createdAt, now), remark(job, now)];
}

function remark(job: JobView, now: number): string {
  const last = job.failures.at(-1)?.error;
  const error = last === undefined ? "" : `: ${last.message}`;
  if (job.reason !== null) return `${job.reason}${error}`;
  if (job.state === "scheduled") return `due ${formatAge(job.dueAt, now)}${error}`;
  if (job.held !== null) return `held: ${heldText(job.held)}${error}`;
  if (job.cancelAsked) return "cancel asked";
  return "";
}
