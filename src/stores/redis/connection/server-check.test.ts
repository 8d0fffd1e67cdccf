/**
 * What is made of a server's own words. The texts follow the form in which servers of the named versions answer INFO;
 * too old a server is not started here, because none that old is to be had.
 */
import { describe, expect, test } from "vitest";
import { judgeServer, readInfo } from "./server-check.ts";
import type { ServerWords } from "./server-check.ts";

const redis6 = `# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\n\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n\r\n# Persistence\r\naof_enabled:1\r\n\r\n# Replication\r\nrole:master\r\n`;
const redis7 = redis6.replace("6.0.16", "7.0.15");
const valkey8 = redis6.replace(
  "redis_version:6.0.16",
  "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1",
);

const wishes = { where: "The server", durability: null, allowEviction: false };
const words = (
  text: string,
  settings: Partial<ServerWords["settings"]> = {},
  canWait = false,
): ServerWords => ({
  info: readInfo(text),
  settings: { appendfsync: "everysec", save: "", ...settings },
  canWait,
});
const code = (expected: string) => expect.objectContaining({ code: expected });

describe("a server that cannot keep the promises is refused by name", () => {
  test("one that is too old", () => {
    expect(() => judgeServer(words(redis6), wishes)).toThrow(code("store-too-old"));
    expect(() => judgeServer(words(""), wishes)).toThrow(code("store-too-old"));
  });

  test("a replica", () => {
    const replica = redis7.replace("role:master", "role:slave");
    expect(() => judgeServer(words(replica), wishes)).toThrow(code("store-read-only"));
  });

  test("one that may evict, or does not say whether it does", () => {
    const evicting = redis7.replace("noeviction", "volatile-ttl");
    expect(() => judgeServer(words(evicting), wishes)).toThrow(code("store-misconfigured"));
    const silent = redis7.replace(/maxmemory_policy.*\r\n/, "");
    expect(() => judgeServer(words(silent), wishes)).toThrow(code("store-misconfigured"));
    const { warnings } = judgeServer(words(evicting), { ...wishes, allowEviction: true });
    expect(warnings).toEqual([expect.stringMatching(/volatile-ttl/)]);
  });
});

describe("what an acknowledgement is worth", () => {
  const withoutFile = redis7.replace("aof_enabled:1", "aof_enabled:0");
  test.each([
    ["append-only file, always", words(redis7, { appendfsync: "always" }), "strict", /power loss: .*always/],
    ["append-only file, everysec", words(valkey8), "relaxed", /last second may be lost/],
    ["append-only file, no", words(redis7, { appendfsync: "no" }), "relaxed", /appendfsync is no\b/],
    ["append-only file, not known", words(redis7, { appendfsync: null }), "relaxed", /not known/],
    ["snapshots", words(withoutFile, { save: "3600 1" }), "relaxed", /last snapshot is lost/],
    ["not known", words(withoutFile, { save: null }), "relaxed", /last snapshot is lost/],
    ["nothing", words(withoutFile), "memory", /ends with the server/],
  ])("%s", (_, said, durability, sentence) => {
    const facts = judgeServer(said, wishes);
    expect(facts).toMatchObject({ durability, waitsForFile: false, warnings: [] });
    expect(facts.acknowledged).toMatch(sentence);
  });

  test("strict waits for the file where the server can, and is refused where it cannot", () => {
    const strict = { ...wishes, durability: "strict" as const };
    expect(judgeServer(words(valkey8, {}, true), strict)).toMatchObject({
      durability: "strict",
      waitsForFile: true,
    });
    expect(judgeServer(words(redis7, { appendfsync: "always" }), strict).waitsForFile).toBe(false);
    expect(() => judgeServer(words(redis7), strict)).toThrow(code("durability-refused"));
    // Waiting for a file that is not written would never end.
    expect(() => judgeServer(words(withoutFile, {}, true), strict)).toThrow(code("durability-refused"));
    const relaxed = { ...wishes, durability: "relaxed" as const };
    expect(() => judgeServer(words(withoutFile), relaxed)).toThrow(code("durability-refused"));
  });
});
