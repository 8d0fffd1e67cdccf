/** What doctor says of a Postgres server: from the facts of an examination to findings, each with its advice. */
import type { Platform } from "../../platform/platform.ts";
import { examinePostgres } from "../../stores/postgres/connection/examine.ts";
import type { PostgresCondition, TableCondition } from "../../stores/postgres/connection/examine.ts";
import type { Finding } from "./finding.ts";
import { durationText } from "../../model/duration.ts";

const oldTransactionMs = 60_000;

export function examine(url: string, platform: Platform): Promise<PostgresCondition> {
  return examinePostgres({ url, platform, olderThanMs: oldTransactionMs });
}

export function postgresFindings(condition: PostgresCondition): readonly Finding[] {
  return [
    ...settingFindings(condition),
    ...condition.missing.map((name) => ({
      check: "schema",
      problem: `The ${name} is missing or not valid.`,
      advice:
        "Somebody removed it: create it again as src/stores/postgres/connection/schema.sql.ts and sql/ have it, or restore it.",
    })),
    ...condition.tables.filter(isBloated).map(({ name, liveRows, deadRows }) => ({
      check: "bloat",
      problem: `The table ${name} holds about ${deadRows} dead rows and ${liveRows} live ones; claims scan the dead ones too.`,
      advice: `Look for what keeps vacuum from clearing them (a long transaction, autovacuum off), then VACUUM ${condition.schema}.${name}.`,
    })),
    ...condition.transactions.map(({ pid, user, application, state, ageMs, query }) => ({
      check: "transactions",
      problem: `A transaction of ${user} (process ${pid}, ${application || "no application name"}, ${state}) has been open for ${durationText(ageMs)}: ${query}`,
      advice: `Dead rows stay as long as it is open. End it in its application, or: SELECT pg_terminate_backend(${pid}).`,
    })),
    ...hearingFindings(condition),
    ...connectionFindings(condition),
  ];
}

/** Findings about settings. The store itself warns of fsync and full_page_writes. */
function settingFindings({ settings }: PostgresCondition): readonly Finding[] {
  const found: Finding[] = [];
  if (settings.synchronous_commit === "off")
    found.push({
      check: "settings",
      problem: "synchronous_commit is off: a commit of yours that enqueues a job may be lost in a crash.",
      advice: "Set it to on. Millrace asks for it in its own calls, but not in your transactions.",
    });
  if (settings.autovacuum === "off" || settings.track_counts === "off")
    found.push({
      check: "settings",
      problem: "autovacuum does not run: dead rows of the hot tables are never cleared.",
      advice: "Set autovacuum and track_counts to on.",
    });
  return found;
}

function hearingFindings({ hears }: PostgresCondition): readonly Finding[] {
  if (hears !== false) return [];
  return [
    {
      check: "wake-ups",
      problem:
        "A NOTIFY does not arrive where this URL listens, so a job of another process starts up to 0.6 s late.",
      advice:
        "The URL probably leads through a pooler in transaction mode: name a direct address with listenUrl, or say listenUrl=none.",
    },
  ];
}

/** From this many dead rows on a table is a finding: far above the thresholds that the tables give autovacuum. */
const deadRowsMin = 50_000;

function isBloated({ liveRows, deadRows }: TableCondition): boolean {
  return deadRows > deadRowsMin && deadRows > liveRows;
}

function connectionFindings({ connections: { open, max } }: PostgresCondition): readonly Finding[] {
  if (open < max * 0.9) return [];
  return [
    {
      check: "connections",
      problem: `${open} of ${max} connections are in use.`,
      advice: "Lower poolMax, raise max_connections or put a pooler in front, before calls are refused.",
    },
  ];
}
