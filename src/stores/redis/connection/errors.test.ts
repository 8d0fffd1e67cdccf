/** The server's and the driver's own words, as they were seen, and what is made of each. */
import { expect, test } from "vitest";
import { connectError, storeError } from "./errors.ts";

const sent = { isSent: true, isWrite: true };
const seen = (words: string, how = sent): unknown => storeError(new Error(words), "The server", how);

test.each([
  ["OOM command not allowed when used memory > 'maxmemory'.", "store-full", "did-not-happen"],
  ["MISCONF Redis is configured to save RDB snapshots, but", "store-full", "did-not-happen"],
  ["READONLY You can't write against a read only replica.", "store-read-only", "did-not-happen"],
  ["NOAUTH Authentication required.", "store-denied", "did-not-happen"],
  ["WRONGPASS invalid username-password pair or user is disabled.", "store-denied", "did-not-happen"],
  ["DENIED Redis is running in protected mode because", "store-denied", "did-not-happen"],
  ["NOPERM this user has no permissions to run the 'fcall' command", "store-denied", "did-not-happen"],
  ["LOADING Redis is loading the dataset in memory", "store-unavailable", "did-not-happen"],
  ["NOREPLICAS Not enough good replicas to write.", "store-unavailable", "did-not-happen"],
  ["BUSY Redis is busy running a script.", "store-busy", "did-not-happen"],
  ["ERR max number of clients reached", "too-many-connections", "did-not-happen"],
  ["ERR DB index is out of range", "store-missing", "did-not-happen"],
  ["ERR unknown command 'FCALL', with args beginning with:", "store-too-old", "did-not-happen"],
  ["ERR Function mr1_submit already exists", "store-misconfigured", "did-not-happen"],
  ['Protocol error, got "H" as reply type byte', "store-unavailable", "did-not-happen"],
  ["connect ECONNREFUSED 127.0.0.1:1", "outcome-unknown", "unknown"],
  ["Command timed out", "outcome-unknown", "unknown"],
  ["Stream isn't writeable and enableOfflineQueue options is false", "store-unavailable", "did-not-happen"],
  ["WRONGTYPE Operation against a key holding the wrong kind of value", "not-a-store", "unknown"],
  ["ERR The user executing the script can't run this command or subcommand", "store-denied", "unknown"],
])("%s", (words, code, outcome) => {
  expect(seen(words)).toMatchObject({ code, outcome, cause: { message: words } });
});

test("a read that was stopped half-way, or a call that was never sent, did not happen", () => {
  expect(seen("WRONGTYPE Operation", { isSent: true, isWrite: false })).toMatchObject({
    outcome: "did-not-happen",
  });
  expect(seen("Command timed out", { isSent: true, isWrite: false })).toMatchObject({
    code: "store-unavailable",
  });
  expect(seen("Connection is closed.", { isSent: false, isWrite: true })).toMatchObject({
    code: "store-unavailable",
    outcome: "did-not-happen",
  });
});

test("whatever keeps a connection from being made, nothing was sent; about certificates more is said", () => {
  for (const words of ["self-signed certificate", "write EPROTO ... SSL routines::wrong version number"])
    expect(connectError(new Error(words), "The server")).toMatchObject({
      code: "store-unavailable",
      outcome: "did-not-happen",
      message: expect.stringMatching(/rediss:/) as unknown,
    });
  expect(connectError(new Error("WRONGPASS invalid"), "The server")).toMatchObject({ code: "store-denied" });
  expect(connectError(new Error("odd"), "The server")).toMatchObject({ code: "store-unavailable" });
});

test("what nobody foresaw stays as it is", () => {
  const error = new Error("ERR something else");
  expect(storeError(error, "The server", sent)).toBe(error);
});
