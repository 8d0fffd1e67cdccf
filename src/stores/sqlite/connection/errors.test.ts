import { describe, expect, it } from "vitest";
import { MillraceError } from "../../../model/error.ts";
import { receiveError, sendError, storeError } from "./errors.ts";

const fromNode = (errcode: number) => Object.assign(new Error("said"), { code: "ERR_SQLITE_ERROR", errcode });
const fromBetter = (code: string) => Object.assign(new Error("said"), { code });
const emitted = (error: unknown) => {
  const { code, outcome, retryable } = error as MillraceError;
  return [code, outcome, retryable];
};

describe("what SQLite reports becomes an error of Millrace", () => {
  const table: [errcode: number, name: string, code: string, retryable: boolean][] = [
    [5, "SQLITE_BUSY", "store-busy", true],
    [261, "SQLITE_BUSY_RECOVERY", "store-busy", true],
    [6, "SQLITE_LOCKED", "store-busy", true],
    [8, "SQLITE_READONLY", "store-read-only", false],
    [1032, "SQLITE_READONLY_DBMOVED", "store-read-only", false],
    [10, "SQLITE_IOERR", "store-unavailable", true],
    [778, "SQLITE_IOERR_WRITE", "store-unavailable", true],
    [11, "SQLITE_CORRUPT", "store-corrupt", false],
    [13, "SQLITE_FULL", "store-full", true],
    [14, "SQLITE_CANTOPEN", "store-unavailable", true],
    [26, "SQLITE_NOTADB", "not-a-store", false],
  ];
  for (const [errcode, name, code, retryable] of table) {
    it(`${name} is ${code}, from either driver`, () => {
      for (const error of [fromNode(errcode), fromBetter(name)]) {
        expect(emitted(storeError(error, "jobs.db"))).toEqual([code, "did-not-happen", retryable]);
      }
    });
  }

  it("a commit that fails is an unknown outcome, unless the disk was full or the lock held", () => {
    expect(emitted(storeError(fromNode(778), "jobs.db", true))).toEqual(["outcome-unknown", "unknown", true]);
    expect(emitted(storeError(fromNode(11), "jobs.db", true))).toEqual(["outcome-unknown", "unknown", true]);
    expect(emitted(storeError(fromNode(13), "jobs.db", true))).toEqual([
      "store-full",
      "did-not-happen",
      true,
    ]);
    expect(emitted(storeError(fromNode(5), "jobs.db", true))).toEqual(["store-busy", "did-not-happen", true]);
  });

  it("what is not SQLite's trouble stays as it is", () => {
    const wrong = new TypeError("a wrong program");
    expect(storeError(wrong, "jobs.db")).toBe(wrong);
    const constraint = fromNode(19);
    expect(storeError(constraint, "jobs.db")).toBe(constraint);
  });

  it("an error keeps its code and outcome on the way between threads", () => {
    const error = receiveError(sendError(new MillraceError("outcome-unknown", "lost")));
    expect(emitted(error)).toEqual(["outcome-unknown", "unknown", true]);
    expect(receiveError(sendError(new TypeError("plain"))).message).toBe("plain");
  });
});
