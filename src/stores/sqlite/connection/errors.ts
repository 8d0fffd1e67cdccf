/**
 * What SQLite reports, as Millrace's own errors. Each says whether the call happened and what to do about it.
 * node:sqlite gives a number, better-sqlite3 a name; both are read because a caller's connection may be either.
 */
import { MillraceError } from "../../../model/error.ts";

/** A record that a reader has met and cannot read. The commit keeps it as unreadable: see find-unreadable.ts. */
export class Unreadable extends Error {
  override readonly name = "Unreadable";
  readonly what: "job" | "feed";
  /** The seq of the job, or the number of the feed record. */
  readonly number: number;

  constructor(what: "job" | "feed", number: number, why: string) {
    super(why);
    this.what = what;
    this.number = number;
  }
}

/** SQLite's primary result codes, as far as Millrace distinguishes them. */
const resultNames: Readonly<Record<number, string>> = {
  ...{ 1: "ERROR", 3: "PERM", 5: "BUSY", 6: "LOCKED", 8: "READONLY", 10: "IOERR", 11: "CORRUPT" },
  ...{ 13: "FULL", 14: "CANTOPEN", 15: "PROTOCOL", 26: "NOTADB" },
};
/** Wrong SQL, or a row that SQLite's own functions cannot read. */
const plainError = "ERROR";

/** The name of the primary result code, or null when the error is not SQLite's. */
export function resultName(error: unknown): string | null {
  if (typeof error !== "object" || error === null) return null;
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return resultNames[errcode & 0xff] ?? "OTHER";
  if (typeof code !== "string" || !code.startsWith("SQLITE_")) return null;
  return code.split("_")[1] ?? "OTHER";
}

/** What a result is to the caller: the sentence goes on behind the path of the file. */
type Meaning = readonly [code: MillraceError["code"], sentence: string];
const busy: Meaning = [
  "store-busy",
  "has its write lock held by another connection. Look for a transaction that stays open.",
];
const readOnly: Meaning = [
  "store-read-only",
  "or its folder cannot be written. Give this process write permission to both.",
];
const meanings: Readonly<Record<string, Meaning>> = {
  FULL: [
    "store-full",
    "has no room left on its disk or within its page limit; nothing of this call was written. Free some space, then repeat it.",
  ],
  ...{ BUSY: busy, LOCKED: busy, PROTOCOL: busy, PERM: readOnly, READONLY: readOnly },
  CORRUPT: ["store-corrupt", "is damaged. Restore a backup, or rescue it with the sqlite3 tool's .recover."],
  NOTADB: ["not-a-store", "is not a SQLite database. Name another file; this one was left as it is."],
  CANTOPEN: ["store-unavailable", "cannot be opened. Check that its folder exists and may be written."],
  IOERR: [
    "store-unavailable",
    "could not be read or written; nothing of this call was written. Check the disk.",
  ],
};
const unclear: Meaning = [
  "outcome-unknown",
  "could not be written at the commit, so the call may or may not have happened. Repeat it with the same ids.",
];

function meaningOf(error: unknown): Meaning | undefined {
  return meanings[resultName(error) ?? plainError];
}

export function isBusy(error: unknown): boolean {
  return meaningOf(error) === busy;
}

/** `isCommit`: the error came from COMMIT itself, so that only a full disk proves that nothing was written. */
export function storeError(error: unknown, path: string, isCommit = false): unknown {
  if (error instanceof MillraceError) return error;
  if (error instanceof Unreadable)
    return new MillraceError(
      "store-corrupt",
      `A record of ${path} cannot be read, and keeping it as unreadable did not help: ${error.message}.`,
      { cause: error },
    );
  const name = resultName(error);
  const isUnclear = isCommit && name !== null && name !== plainError && name !== "FULL" && !isBusy(error);
  const meaning = isUnclear ? unclear : meaningOf(error);
  if (meaning === undefined) return error;
  const [code, sentence] = meaning;
  const said = error instanceof Error ? error.message : String(error);
  return new MillraceError(code, `${path} ${sentence} (SQLite: ${said})`, { cause: error });
}

export function busyTooLong(path: string, waitedMs: number): MillraceError {
  return new MillraceError(
    "store-busy",
    `Another connection held the write lock of ${path} for longer than ${waitedMs} ms; nothing was written. Look for a transaction that stays open.`,
  );
}

/** An error as it crosses from the thread that owns the connection. */
export interface SentError {
  readonly code: MillraceError["code"] | null;
  readonly message: string;
  readonly outcome: MillraceError["outcome"];
  readonly stack: string | undefined;
}

export function sendError(error: unknown): SentError {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const isOurs = error instanceof MillraceError;
  const outcome = isOurs ? error.outcome : "did-not-happen";
  return { code: isOurs ? error.code : null, message, outcome, stack };
}

export function receiveError({ code, message, outcome, stack }: SentError): Error {
  const error = code === null ? new Error(message) : new MillraceError(code, message, { outcome });
  if (stack !== undefined) error.stack = stack;
  return error;
}
