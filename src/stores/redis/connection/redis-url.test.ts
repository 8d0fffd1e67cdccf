import { describe, expect, test } from "vitest";
import { slotOf } from "./cluster-slot.ts";
import { nameOf, readRedisUrl } from "./redis-url.ts";

describe("a URL", () => {
  test("names one server, and what the driver does not know is taken out", () => {
    expect(readRedisUrl("redis://u:p@h:7000/2?prefix=a&partitions=4&family=6")).toEqual({
      urls: ["redis://u:p@h:7000/2?family=6"],
      prefix: "a",
      partitions: "4",
      isCluster: false,
    });
    expect(readRedisUrl("valkeys://h").urls).toEqual(["rediss://h"]);
    expect(readRedisUrl("redis:///1").urls).toEqual(["redis:///1"]);
  });

  test("names the first servers of a cluster", () => {
    const read = readRedisUrl("rediss://u:p%40@h1:7000,h2,[::1]:7002/?cluster=true&prefix=a");
    expect(read.isCluster).toBe(true);
    expect(read.urls).toEqual([
      "rediss://u:p%40@h1:7000/",
      "rediss://u:p%40@h2/",
      "rediss://u:p%40@[::1]:7002/",
    ]);
    expect(nameOf(read)).toBe("The cluster of h1:7000, h2:6379, [::1]:7002");
    expect(nameOf(readRedisUrl("redis://u:secret@h"))).toBe("The server h:6379");
  });

  test.each([
    ["http://h", "unknown-store"],
    ["redis:h", "unknown-store"],
    ["redis://h:port", "unknown-store"],
    ["redis://h,,i/?cluster=true", "unknown-store"],
    [undefined, "unknown-store"],
    ["redis://h,i", "invalid-option"],
    ["redis://h?cluster=maybe", "invalid-option"],
    ["redis://h/abc", "invalid-option"],
    ["redis://h/1/2", "invalid-option"],
    ["redis://h/0?prefx=a", "invalid-option"],
    ["redis://h/0?prefix=a&prefix=b", "invalid-option"],
  ])("that makes no sense is refused: %s", (url, code) => {
    expect(() => readRedisUrl(url)).toThrow(expect.objectContaining({ code }));
  });
});

test("slots are those that the servers compute", () => {
  // CLUSTER KEYSLOT "{123456789}", "{millrace:0}", "{ü:7}"
  expect(["{123456789}", "{millrace:0}", "{ü:7}"].map(slotOf)).toEqual([12_739, 5986, 3852]);
});
