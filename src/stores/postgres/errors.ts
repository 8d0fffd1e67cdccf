/**
 * What Postgres and its driver report, as Millrace's own errors. Each says whether the call happened and what to do
 * about it. A reply that was lost after the statement was sent leaves a write unknown: Postgres may have committed it.
 */
import { MillraceError } from "../../model/error.ts";
import type { ErrorCode } from "../../model/error.ts";

interface Reported {
  readonly code?: unknown;
  readonly message?: unknown;
}

export function sqlState(error: unknown): string | null {
  if (typeof error !== "object" || error === null) return null;
  const { code } = error as Reported;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) ? code : null;
}

/**
 * Deadlocks and serialisation failures, and names of statements: nothing happened, and the same call may succeed at
 * once.
 */
export function isWorthRepeating(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40P01" || state === "40001" || isNameUnknown(error);
}

/**
 * The server process does not know a prepared statement, or knows another one by its name: somebody else has used the
 * connection.
 */
export function isNameUnknown(error: unknown): boolean {
  const state = sqlState(error);
  return state === "26000" || state === "42P05";
}

const connectionTrouble = /^(08|57P0[1-5])/;
const driverTrouble =
  /ECONN|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|terminat|timeout|closed|Connection/i;

export function isConnectionLost(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== null) return connectionTrouble.test(state);
  if (!(error instanceof Error)) return false;
  return driverTrouble.test(`${String((error as Reported).code ?? "")} ${error.message}`);
}

/** The driver has given up on the answer. */
export function isTooLate(error: unknown): boolean {
  return error instanceof Error && error.message === "Query read timeout";
}

/** The server asks for a password, and the URL has none. */
const passwordMissing = /password must be a string|password.*(missing|empty)/i;

/** `isSent`: the statement was on its way. `isWrite`: it may have changed something. */
export function storeError(
  error: unknown,
  where: string,
  { isSent, isWrite }: { readonly isSent: boolean; readonly isWrite: boolean },
): unknown {
  if (error instanceof MillraceError) return error;
  const said = error instanceof Error ? error.message : String(error);
  const refuse = (code: ErrorCode, sentence: string): MillraceError =>
    new MillraceError(code, `${sentence} (Postgres: ${said})`, { cause: error });
  if (sqlState(error) === null && passwordMissing.test(said))
    return refuse("store-denied", `${where} asks for a password, and the URL has none.`);
  if (isConnectionLost(error)) {
    if (isSent && isWrite)
      return refuse(
        "outcome-unknown",
        `The connection to ${where} was lost after the call was sent, so it may or may not have happened. Repeat it with the same ids.`,
      );
    return refuse(
      "store-unavailable",
      `${where} cannot be reached; nothing of this call happened. Check the server and the URL.`,
    );
  }
  switch (sqlState(error)) {
    case "53300":
      return refuse(
        "too-many-connections",
        `${where} takes no more connections. Lower poolMax, raise max_connections or put a pooler in front.`,
      );
    case "25006":
      return refuse(
        "store-read-only",
        `${where} is read-only (a replica, or default_transaction_read_only). Name the primary.`,
      );
    case "28000":
    case "28P01":
      return refuse("store-denied", `${where} refuses this user or password. Check the URL.`);
    case "42501":
      return refuse(
        "store-denied",
        `This user lacks a right in ${where}. docs/operating/postgres.md lists the rights that Millrace needs.`,
      );
    case "3D000":
      return refuse(
        "store-missing",
        `${where} does not exist. Create the database, then open the store again.`,
      );
    case "53100":
    case "53200":
      return refuse(
        "store-full",
        `${where} has no disk space or memory left; nothing of this call was written.`,
      );
    case "MR003":
      return refuse("route-collision", "Two queues and names share one route number. Rename one of them.");
    case "40P01":
    case "40001":
    case "55P03":
      return refuse(
        "store-busy",
        `Other transactions of ${where} held what this call needs, several times in a row; nothing was written.`,
      );
    case "57014":
      return refuse("store-busy", `${where} cancelled the call (statement_timeout?); nothing was written.`);
    case "42P01":
    case "42883":
    case "3F000":
      return refuse(
        "store-missing",
        `${where} lacks tables or functions of Millrace: somebody removed them, or the migration did not run.`,
      );
    case "XX001":
    case "XX002":
      return refuse("store-corrupt", `${where} reports damage. Restore a backup.`);
    default:
      return error;
  }
}
