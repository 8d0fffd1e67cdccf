/**
 * What the server and its driver report, as Millrace's own errors. Each says whether the call happened and what to do
 * about it. A reply that was lost after the command was sent leaves a write unknown: the server may have done it.
 */
import { MillraceError } from "../../../model/error.ts";
import type { ErrorCode } from "../../../model/error.ts";

const connectionTrouble =
  /ECONN|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|MaxRetriesPerRequest|max retries|timed out|Connection is closed|isn't writeable|Socket closed/i;

/**
 * [the server's words, code, sentence]. Nothing of a call that is refused so has happened, but where it ended half-way:
 * part of its writes may be there then, and the index audit puts right what follows from them.
 */
const refusals: readonly (readonly [RegExp, ErrorCode, string, isHalfWay?: true])[] = [
  [
    /WRONGTYPE/,
    "not-a-store",
    "has a key of another program among those of this store, so a call ended half-way. Remove that key, then run millrace doctor",
    true,
  ],
  [
    /The user executing the script can't|ACL failure in script/,
    "store-denied",
    "took a right away from this user, so a call ended half-way. docs/operating/redis.md lists the rights that Millrace needs; run millrace doctor",
    true,
  ],
  [/^OOM/, "store-full", "has no memory left (maxmemory); nothing of this call was written"],
  [
    /^MISCONF/,
    "store-full",
    "cannot write its files (disk full?) and therefore takes no writes; nothing of this call was written",
  ],
  [/^READONLY/, "store-read-only", "is a replica, so nothing can be written there. Name the primary"],
  [
    /^(NOAUTH|WRONGPASS)|invalid username-password/,
    "store-denied",
    "refuses this user or password. Check the URL",
  ],
  [
    /^DENIED/,
    "store-denied",
    "is in protected mode and refuses connections from other machines. Give it a password or users, or bind it to this machine's network",
  ],
  [
    /^NOPERM/,
    "store-denied",
    "refuses a command or key to this user. docs/operating/redis.md lists the rights that Millrace needs",
  ],
  [
    /^LOADING|^MASTERDOWN|^CLUSTERDOWN|^TRYAGAIN|^NOREPLICAS/,
    "store-unavailable",
    "does not take this call yet; nothing of it happened",
  ],
  [
    /^BUSY|^UNKILLABLE/,
    "store-busy",
    "is busy with a long script of somebody else; nothing of this call happened",
  ],
  [/max number of clients/, "too-many-connections", "takes no more connections. Raise maxclients"],
  [
    /DB index is out of range|SELECT is not allowed/,
    "store-missing",
    "has no database of this number. Name another one in the URL",
  ],
  [
    /unknown command/i,
    "store-too-old",
    "does not know a command that Millrace needs. Redis 7 or Valkey 7.2 is the oldest",
  ],
  [
    /^ERR Function \S+ already exists/,
    "store-misconfigured",
    "holds a library of another program with functions of Millrace's names. Remove it, or use another server",
  ],
  [
    /Protocol error/,
    "store-unavailable",
    "does not answer as a Redis server; nothing of this call happened. Check host, port and scheme",
  ],
  [
    /^MRFOREIGN/,
    "not-a-store",
    "has keys under this prefix that are another program's, or a store whose key meta was removed or evicted. Choose another prefix, or restore the server's files",
  ],
  [
    /^MRPARTITIONS/,
    "partitions-differ",
    "holds a store that was made with another number of partitions, which stays for its life. Leave the option out",
  ],
  [
    /^MRROUTE/,
    "route-collision",
    "holds another queue and name under the route number of a job in this call, by chance; nothing of it was written. Rename one of them",
  ],
  [
    /^MRABSENT/,
    "store-unavailable",
    "has nothing of this store here, and nothing is made while partition 0 cannot be entered, which is made first",
  ],
  [/^MRNEWER/, "schema-newer", "holds a store of a newer Millrace under this prefix; upgrade this one"],
];

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // The driver's words for it are about an option of its own.
  return error.name === "MaxRetriesPerRequestError" ? "Connection is closed." : error.message;
}

const says =
  (words: RegExp) =>
  (error: unknown): boolean =>
    words.test(wordsOf(error));

export const isFunctionMissing = says(/Function not found/i);
export const isEntryMissing = says(/^MRENTER/);
/** Waiting for the connection would not help. */
export const isRefused = says(/^(NOAUTH|WRONGPASS|NOPERM|DENIED)|max number of clients|Protocol error/);
/** The server could not choose the database that the URL names; the driver goes on in another one. */
export const isDatabaseRefused = says(/DB index is out of range|SELECT is not allowed|'select' command/i);
/** The server of this connection is a replica, perhaps since a moment ago. */
export const isReadOnly = says(/^READONLY/);
/** The call's time was over before its reply came. */
export const isSilence = says(/^Command timed out/);

/** A key of another type, or one that holds what no function of ours can read. */
export function isDamage(error: unknown): boolean {
  return says(/WRONGTYPE|user_function/)(error instanceof MillraceError ? error.cause : error);
}

/** Whether a partition that could not be entered for this may come in later; all else means a wrong set-up. */
export function mayHeal(error: unknown): boolean {
  if (isDamage(error)) return true;
  return error instanceof MillraceError && error.retryable && !says(/^MRABSENT/)(error.cause);
}

function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return connectionTrouble.test(`${typeof code === "string" ? code : ""} ${error.name} ${error.message}`);
}

/** Why there is no connection: whatever it was, nothing was sent. */
export function connectError(error: unknown, where: string): MillraceError {
  const known = storeError(error, where, { isSent: false, isWrite: false });
  if (known instanceof MillraceError) return known;
  const said = wordsOf(error);
  const advice = /certificate|SSL|TLS/i.test(said)
    ? "Check whether it speaks TLS (rediss:) and whom its certificate names; for a certificate of your own, open the store with a client that knows it"
    : "Check the server and the URL";
  const sentence = `${where} takes no connection; nothing of this call happened. ${advice}. (Redis: ${said})`;
  return new MillraceError("store-unavailable", sentence, { cause: error });
}

/** `isSent`: the command was on its way. `isWrite`: it may have changed something. */
export function storeError(
  error: unknown,
  where: string,
  { isSent, isWrite }: { readonly isSent: boolean; readonly isWrite: boolean },
): unknown {
  if (error instanceof MillraceError) return error;
  const said = wordsOf(error);
  const refuse = (code: ErrorCode, sentence: string, isUnknown = code === "outcome-unknown"): MillraceError =>
    new MillraceError(code, `${sentence}. (Redis: ${said})`, {
      cause: error,
      outcome: isUnknown ? "unknown" : "did-not-happen",
    });
  for (const [words, code, sentence, isHalfWay = false] of refusals)
    if (words.test(said)) return refuse(code, `${where} ${sentence}`, isHalfWay && isWrite);
  if (!isConnectionLost(error)) return error;
  const lost = `The connection to ${where.replace(/^The /, "the ")} was lost after the call was sent, so it may or may not have happened`;
  if (isSent && isWrite && !/isn't writeable/.test(said))
    return refuse("outcome-unknown", `${lost}. Repeat it with the same ids`);
  const unreached = `${where} cannot be reached; nothing of this call happened`;
  return refuse("store-unavailable", `${unreached}. Check the server and the URL`);
}
