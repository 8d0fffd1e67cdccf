/** `millrace list`: jobs, newest first, one page at a time. */
import type { Millrace } from "../../client/millrace.ts";
import type { JobPage } from "../../client/jobs/jobs.ts";
import type { JobView } from "../../client/jobs/job-view.ts";
import { jobStates } from "../../model/job/job-state.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { heldText } from "./held-text.ts";
import { formatTable } from "../output/format-table.ts";
import { formatAge } from "../output/format-time.ts";
import { filterOptions, readQuery } from "./job-query.ts";
import type { JobQuery } from "../../client/jobs/job-filter.ts";
import { jobShape } from "./job-shape.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { readWhole } from "../arguments/read-args.ts";

export const list: Command = {
  name: "list",
  usage: "list [--state S] [--queue Q] [--name N] [--tag T] [--after TIME] [--limit 50]",
  summary: "jobs, newest first",
  words: [0, 0],
  options: {
    ...storeOption,
    ...filterOptions,
    limit: { value: "N", meaning: "at most so many, 1 to 500; 50 by default" },
    cursor: { value: "CURSOR", meaning: "go on where the previous page ended" },
  },
  examples: ["list --state failed", "list --queue email --after 2h --limit 10 --json"],
  async run(call) {
    const { options, terminal, platform, wantsJson } = call;
    const query = readQuery(call, jobStates);
    const limit = readWhole(options, "limit", [1, 500]) ?? 50;
    const page = await withMillrace(call, await existingStoreUrl(call), (mill) =>
      readPage(mill, { ...query, limit, cursor: options.get("cursor") ?? null }),
    );
    if (wantsJson) {
      const { cursor, missing = [] } = page;
      terminal.writeOut(`${toJson({ jobs: page.jobs.map(jobShape), cursor, missing })}\n`);
      return 0;
    }
    const now = platform.now();
    terminal.writeOut(
      page.jobs.length === 0
        ? "no jobs\n"
        : `${formatTable(
            columns,
            page.jobs.map((job) => cells(job, now)),
          )}\n`,
    );
    if (page.missing !== undefined)
      terminal.writeErr(`missing: the jobs of partition ${page.missing.join(", ")}, which fails\n`);
    if (page.cursor !== null) terminal.writeOut(`more: add --cursor=${page.cursor}\n`);
    return 0;
  },
};

/** A page may be empty with a cursor behind it, when the scan found nothing yet. */
async function readPage(
  mill: Millrace,
  query: JobQuery & { limit: number; cursor: string | null },
): Promise<JobPage> {
  let page = await mill.jobs.list(query);
  while (page.jobs.length === 0 && page.cursor !== null) {
    page = await mill.jobs.list({ ...query, cursor: page.cursor });
  }
  return page;
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
