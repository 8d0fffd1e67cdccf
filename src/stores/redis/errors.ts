/**
 * What the server and its driver report, as Millrace's own errors. Each says whether the call happened and what to do about it. A reply that was
 * lost after the command was sent leaves a write unknown: the server may have done it.
 */
import { MillraceError } from "../../model/error.ts";
import type { ErrorCode } from "../../model/error.ts";

const connectionTrouble =
  /ECONN|EPIPE|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|MaxRetriesPerRequest|max retries|timed out|Connection is closed|isn't writeable|Socket closed/i;

/** [begin of the server's words, code, sentence]. Nothing of a call that is refused so has happened. */
const refusals: readonly (readonly [RegExp, ErrorCode, string])[] = [
  [/^OOM/, "store-full", "has no memory left (maxmemory); nothing of this call was written"],
  [
    /^MISCONF/,
    "store-full",
    "cannot write its files (disk full?) and therefore takes no writes; nothing of this call was written",
  ],
  [/^READONLY/, "store-read-only", "is a replica, so nothing can be written there. Name the primary"],
  [
    /^(NOAUTH|WRONGPASS)|invalid username-password|without any password/,
    "store-denied",
    "refuses this user or password. Check the URL",
  ],
  [
    /^NOPERM|The user executing the script can't|ACL failure in script/,
    "store-denied",
    "refuses a command or key to this user. docs/operating/redis.md lists the rights that Millrace needs",
  ],
  [
    /^LOADING|^MASTERDOWN|^CLUSTERDOWN|^TRYAGAIN/,
    "store-unavailable",
    "is not ready yet; nothing of this call happened",
  ],
  [
    /^BUSY|^UNKILLABLE/,
    "store-busy",
    "is busy with a long script of somebody else; nothing of this call happened",
  ],
  [/max number of clients/, "too-many-connections", "takes no more connections. Raise maxclients"],
  [/^MRFOREIGN/, "not-a-store", "has keys of another program under this prefix. Choose another prefix"],
  [/^MRNEWER/, "schema-newer", "holds a store of a newer Millrace under this prefix; upgrade this one"],
];

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function isFunctionMissing(error: unknown): boolean {
  return /Function not found/i.test(wordsOf(error));
}

export function isEntryMissing(error: unknown): boolean {
  return wordsOf(error).startsWith("MRENTER");
}

/** Waiting for the connection would not help. */
export function isRefused(error: unknown): boolean {
  return /^(NOAUTH|WRONGPASS|NOPERM)/.test(wordsOf(error));
}

function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return connectionTrouble.test(`${typeof code === "string" ? code : ""} ${error.name} ${error.message}`);
}

/** `isSent`: the command was on its way. `isWrite`: it may have changed something. */
export function storeError(
  error: unknown,
  where: string,
  { isSent, isWrite }: { readonly isSent: boolean; readonly isWrite: boolean },
): unknown {
  if (error instanceof MillraceError) return error;
  const said = wordsOf(error);
  const refuse = (code: ErrorCode, sentence: string): MillraceError =>
    new MillraceError(code, `${sentence} (Redis: ${said})`, { cause: error });
  for (const [words, code, sentence] of refusals)
    if (words.test(said)) return refuse(code, `${where} ${sentence}.`);
  if (!isConnectionLost(error)) return error;
  if (isSent && isWrite && !/isn't writeable/.test(said))
    return refuse(
      "outcome-unknown",
      `The connection to ${where} was lost after the call was sent, so it may or may not have happened. Repeat it with the same ids.`,
    );
  return refuse(
    "store-unavailable",
    `${where} cannot be reached; nothing of this call happened. Check the server and the URL.`,
  );
}
