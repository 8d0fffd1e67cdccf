/**
 * What SQLite reports, as Millrace's own errors. Each says whether the call happened and what to do about it.
 * node:sqlite gives a number, better-sqlite3 a name; both are read because a caller's connection may be either.
 */
import { MillraceError } from "../../model/error.ts";

/** A record that a reader has met and cannot read. The commit sets it aside: see unreadable.ts. */
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

const codeByName: Readonly<Record<string, number>> = {
  SQLITE_PERM: 3,
  SQLITE_BUSY: 5,
  SQLITE_LOCKED: 6,
  SQLITE_READONLY: 8,
  SQLITE_IOERR: 10,
  SQLITE_CORRUPT: 11,
  SQLITE_FULL: 13,
  SQLITE_CANTOPEN: 14,
  SQLITE_PROTOCOL: 15,
  SQLITE_NOTADB: 26,
};

/** The primary result code, or null when the error is not SQLite's. */
export function resultCode(error: unknown): number | null {
  if (typeof error !== "object" || error === null) return null;
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return errcode & 0xff;
  if (typeof code !== "string" || !code.startsWith("SQLITE_")) return null;
  const name = code.split("_").slice(0, 2).join("_");
  return codeByName[name] ?? 1;
}

export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  return code === 5 || code === 6 || code === 15;
}

/** `isCommit`: the error came from COMMIT itself, so that only a full disk tells for sure that nothing was written. */
export function storeError(error: unknown, path: string, isCommit = false): unknown {
  if (error instanceof MillraceError) return error;
  if (error instanceof Unreadable)
    return new MillraceError(
      "store-corrupt",
      `A record of ${path} cannot be read, and setting it aside did not help: ${error.message}.`,
      { cause: error },
    );
  const said = error instanceof Error ? error.message : String(error);
  const refuse = (code: MillraceError["code"], sentence: string): MillraceError =>
    new MillraceError(code, `${sentence} (SQLite: ${said})`, { cause: error });
  switch (resultCode(error)) {
    case null:
    case 1:
      return error;
    case 13:
      return refuse(
        "store-full",
        `The disk or the page limit of ${path} is full; nothing of this call was written. Free some space, then repeat it.`,
      );
    case 5:
    case 6:
    case 15:
      return refuse(
        "store-busy",
        `Another connection holds the write lock of ${path}. Look for a transaction that stays open.`,
      );
  }
  if (isCommit) {
    return refuse(
      "outcome-unknown",
      `Writing ${path} failed at the commit, so the call may or may not have happened. Repeat it with the same ids.`,
    );
  }
  switch (resultCode(error)) {
    case 3:
    case 8:
      return refuse(
        "store-read-only",
        `${path} or its folder cannot be written. Give this process write permission to both.`,
      );
    case 11:
      return refuse(
        "store-corrupt",
        `${path} is damaged. Restore a backup, or rescue it with the sqlite3 tool's .recover.`,
      );
    case 26:
      return refuse(
        "not-a-store",
        `${path} is not a SQLite database. Name another file; this one was left as it is.`,
      );
    case 14:
      return refuse(
        "store-unavailable",
        `${path} cannot be opened. Check that its folder exists and may be written.`,
      );
    case 10:
      return refuse(
        "store-unavailable",
        `Reading or writing ${path} failed; nothing of this call was written. Check the disk.`,
      );
    default:
      return error;
  }
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
  if (error instanceof MillraceError)
    return { code: error.code, message: error.message, outcome: error.outcome, stack: error.stack };
  const stack = error instanceof Error ? error.stack : undefined;
  return {
    code: null,
    message: error instanceof Error ? error.message : String(error),
    outcome: "did-not-happen",
    stack,
  };
}

export function receiveError({ code, message, outcome, stack }: SentError): Error {
  const error = code === null ? new Error(message) : new MillraceError(code, message, { outcome });
  if (stack !== undefined) error.stack = stack;
  return error;
}
