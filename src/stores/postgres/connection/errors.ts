/**
 * Turns errors of Postgres and its driver into Millrace's own. Each says whether the call happened and what to do. If
 * the reply was lost after the statement was sent, the outcome of a write is unknown: Postgres may have committed it.
 */
import { MillraceError } from "../../../model/error.ts";
import type { ErrorCode } from "../../../model/error.ts";

interface Reported {
  readonly code?: unknown;
  readonly message?: unknown;
}

export function sqlState(error: unknown): string | null {
  if (typeof error !== "object" || error === null) return null;
  const { code } = error as Reported;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) ? code : null;
}

/** The SQLSTATE of a wait for a lock that took too long. */
export const lockNotAvailable = "55P03";

/** Whether nothing happened and the same call may succeed at once. */
export function isWorthRepeating(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40P01" || state === "40001" || isNameUnknown(error);
}

/**
 * Whether the server process does not know a prepared statement, or knows another one by its name. That happens if
 * another client has used the server connection.
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
  const [code, sentence] = refusals.find(([, , states]) => states.includes(sqlState(error) ?? "")) ?? [];
  return code === undefined ? error : refuse(code, `${where} ${sentence}`);
}

/** Errors of the server by SQLSTATE. In the message, the name of the database comes before the sentence. */
const refusals: readonly (readonly [code: ErrorCode, sentence: string, states: readonly string[]])[] = [
  [
    "too-many-connections",
    "takes no more connections. Lower poolMax, raise max_connections or put a pooler in front.",
    ["53300"],
  ],
  [
    "store-read-only",
    "is read-only (a replica, or default_transaction_read_only). Name the primary.",
    ["25006"],
  ],
  ["store-denied", "refuses this user or password. Check the URL.", ["28000", "28P01"]],
  [
    "store-denied",
    "denies this user a right. docs/operating/postgres.md lists the rights that Millrace needs.",
    ["42501"],
  ],
  ["store-missing", "does not exist. Create the database, then open the store again.", ["3D000"]],
  ["store-full", "has no disk space or memory left; nothing of this call was written.", ["53100", "53200"]],
  ["route-collision", "has two queues and names of one route number. Rename one of them.", ["MR003"]],
  [
    "store-busy",
    "has other transactions that held what this call needs, several times in a row; nothing was written.",
    ["40P01", "40001", lockNotAvailable],
  ],
  ["store-busy", "cancelled the call (statement_timeout?); nothing was written.", ["57014"]],
  [
    "store-missing",
    "lacks tables or functions of Millrace: somebody removed them, or the migration did not run.",
    ["42P01", "42883", "3F000"],
  ],
  ["store-corrupt", "reports damage. Restore a backup.", ["XX001", "XX002"]],
  [
    "store-corrupt",
    "did not remove the rows of the jobs that a claim took; nothing of this call was written. Look for triggers on the table waiting, and REINDEX it.",
    ["MR004"],
  ],
];
