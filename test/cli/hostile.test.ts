// Text from jobs never reaches the terminal as anything but text: whatever names, payloads, errors and log lines hold.
import { describe, expect, test } from "vitest";
import { handler, job, Millrace } from "../../src/index.ts";
import { aStoreUrl, millrace, say, sayJson } from "./run-millrace.ts";
import { hangMs } from "../support/hang-ms.ts";

/** Clears the screen, rings, forges a line, hides text, turns it round, and is no well-formed Unicode. */
const evil = "a\u001b[2J\u0007\r\nforged: ok\u009b31m\u202egnp\u2028\u200b\u0000\ud800";
/** What a name may be: anything but controls and invisible characters, except the joiner in the last one. */
const names = [
  `"quoted' {braces}: \`$(rm -rf)\``,
  "__proto__",
  "constructor",
  "--json",
  "-h",
  "ünïcödé 日本 🎉",
  "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
];
const unsafe = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\ufeff]/;

async function aHostileStore(): Promise<{ store: string; id: string }> {
  const store = aStoreUrl();
  const mill = await Millrace.open(store, { log: false });
  const bad = job(names[0] as string, { queue: names[6] as string, retry: { attempts: 1 } });
  const worker = await mill.work([
    handler(bad, ({ log, progress }) => {
      log.info(evil, { [evil]: evil });
      progress(0.5, evil);
      throw Object.assign(new Error(evil, { cause: evil }), { name: evil, code: evil });
    }),
  ]);
  const handle = await mill.enqueue(
    bad,
    { [evil]: [evil] },
    { tags: names, headers: { [names[1] as string]: evil } },
  );
  await handle.result({ timeout: hangMs }).catch(() => undefined);
  await worker.stop();
  await mill.close();
  return { store, id: handle.id };
}

describe("hostile text", () => {
  test("is printed escaped by every command that shows it", async () => {
    const { store, id } = await aHostileStore();
    for (const args of [
      ["list"],
      ["show", id],
      ["show", id, "--stacks"],
      ["explain", id],
      ["retry", id],
      ["explain", id],
      ["cancel", id],
    ]) {
      const { code, out, err } = await say([...args, "--store", store]);
      expect(out, args.join(" ")).not.toMatch(unsafe);
      expect(err).toBe("");
      expect(code).toBe(0);
      expect(out.split("\n").filter((line) => line.startsWith("forged"))).toEqual([]);
    }
    const { out } = await say(["show", id, "--store", store]);
    expect(out).toContain("a\\u001b[2J\\u0007\\r\\nforged: ok\\u009b31m\\u202egnp");
  });

  test("is whole and escaped in JSON", async () => {
    const { store, id } = await aHostileStore();
    const { out } = await millrace(["show", id, "--json", "--store", store]);
    expect(out).not.toMatch(unsafe);
    const { job: shown } = JSON.parse(out) as { job: Record<string, never> };
    expect(shown).toMatchObject({ name: names[0], queue: names[6], tags: names, input: { [evil]: [evil] } });
    expect(shown["failures"]).toMatchObject([{ error: { message: evil, name: evil, code: evil } }]);
  });

  test("is no name: what turns text round or cannot be seen is refused, and shown escaped", async () => {
    for (const hidden of ["\u202egnp.exe", "ab\u00adcd", "tag\u{e0041}"]) {
      const { code, err } = await say(["enqueue", hidden, "--store", aStoreUrl()]);
      expect(err).toContain("invalid-name");
      expect(err).not.toMatch(/\p{Cf}/u);
      expect(code).toBe(2);
    }
  });

  test("in arguments is refused or repeated escaped", async () => {
    for (const args of [
      [evil],
      ["list", `--${evil}`],
      ["list", "--state", evil],
      ["show", evil],
      ["enqueue", evil],
    ]) {
      const { code, err } = await say([...args, "--store", (await aHostileStore()).store]);
      expect(err).not.toMatch(unsafe);
      expect(code).toBeGreaterThan(0);
    }
  });
});

describe("names that look like something else", () => {
  test.each(names)("work like any other: %j", async (name) => {
    const store = aStoreUrl();
    const words = [
      "enqueue",
      `--id=${name}`,
      `--queue=${name}`,
      `--unique=${name}`,
      "--store",
      store,
      "--",
      name,
      "null",
    ];
    const made = await say(words);
    expect(made.err).toBe("");
    const { jobs } = await sayJson(["list", `--name=${name}`, `--queue=${name}`, "--store", store]);
    expect(jobs).toMatchObject([{ id: name, name, queue: name }]);
    const shown = await say(["show", "--json", "--store", store, "--", name]);
    expect(JSON.parse(shown.out)).toMatchObject({ job: { id: name, name } });
  });

  test("values that JSON has no word for are shown as what people would write", async () => {
    const store = aStoreUrl();
    const mill = await Millrace.open(store);
    const input = {
      at: new Date(0),
      big: 12345678901234567890n,
      bytes: new Uint8Array([1, 2, 3]),
      map: new Map([[1, "one"]]),
      set: new Set(["x"]),
      not: Number.NaN,
    };
    const { id } = await mill.enqueue(job("odd"), input);
    await mill.close();
    expect((await sayJson(["show", id, "--store", store]))["job"]).toMatchObject({
      input: {
        at: "1970-01-01T00:00:00.000Z",
        big: "12345678901234567890",
        bytes: "AQID",
        map: [[1, "one"]],
        set: ["x"],
        not: "NaN",
      },
    });
  });
});
