/** What every client of object storage keeps: the rules in the header of src/store/objects.ts. */
import { describe, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { NamePage, Objects } from "../../src/store/objects.ts";
import { retrying } from "../../src/stores/bucket/objects/retrying.ts";

/** One process's client of a bucket that all handles share. */
export type OpenObjects = (place: {
  /** "" or a path that ends with a slash. */
  readonly prefix: string;
  readonly pageSize?: number;
}) => Objects | Promise<Objects>;

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array | null): string | null =>
  bytes === null ? null : new TextDecoder().decode(bytes);
const oddNames = [
  "a b+c&d=e?f#g",
  "100%/%2F%41",
  'it\'s "quoted" <tag> [x] {y} |z|',
  "~tilde/!bang*(star)/$dollar;,:@^`",
  "log/000000000017",
];

export function describeObjects(kind: string, open: OpenObjects): void {
  let places = 0;
  /** An empty place, another one for each test. */
  const freshPrefix = (): string => `suite-${(places += 1)}/`;
  const using = async (
    run: (objects: Objects) => Promise<void>,
    place: { prefix?: string; pageSize?: number } = {},
  ): Promise<void> => {
    const objects = await open({ prefix: freshPrefix(), ...place });
    try {
      await run(objects);
    } finally {
      await objects.close();
    }
  };

  describe(`objects: ${kind}`, () => {
    test("what was put is got as it is, also by another process, and is replaced only without the condition", () =>
      using(async (objects) => {
        expect(await objects.get("log/1")).toBeNull();
        expect(await objects.put("log/1", bytesOf("one"), true)).toBe("stored");
        expect(await objects.put("log/1", bytesOf("two"), true)).toBe("exists");
        expect(textOf(await objects.get("log/1"))).toBe("one");
        expect(await objects.put("log/1", bytesOf("three"), false)).toBe("stored");
        expect(textOf(await objects.get("log/1"))).toBe("three");
      }));

    test("another process sees what was put and what was removed", async () => {
      const prefix = freshPrefix();
      await using(
        (ours) =>
          using(
            async (theirs) => {
              await ours.put("log/1", bytesOf("one"), true);
              expect(textOf(await theirs.get("log/1"))).toBe("one");
              expect(await theirs.put("log/1", bytesOf("one"), true)).toBe("exists");
              await theirs.remove(["log/1"]);
              expect(await ours.get("log/1")).toBeNull();
              expect((await ours.list("log/", null)).names).toEqual([]);
            },
            { prefix },
          ),
        { prefix },
      );
    });

    test("bytes of any value and length come back, none at all among them", () =>
      using(async (objects) => {
        for (const length of [0, 1, 256, 300_000]) {
          const bytes = Uint8Array.from({ length }, (_, at) => (at * 31 + (at >> 8)) & 255);
          await objects.put(`chunk/${length}`, bytes, true);
          const got = await objects.get(`chunk/${length}`);
          expect(Buffer.compare(got as Uint8Array, bytes)).toBe(0);
        }
      }));

    test("of twenty that put one name at the same time one is told that it stored, and its bytes are there", () =>
      using(async (objects) => {
        // The service may ask some of them to try again.
        const client = retrying(objects, nodePlatform);
        for (const name of ["log/1", "log/2", "log/3"]) {
          const racers = Array.from({ length: 20 }, (_, at) => `racer ${at}`);
          const answers = await Promise.all(racers.map((racer) => client.put(name, bytesOf(racer), true)));
          const winners = racers.filter((_, at) => answers[at] === "stored");
          expect(winners).toEqual([textOf(await objects.get(name))]);
        }
      }));

    test("a list has the names with its prefix in byte order, after the given one, page after page", () =>
      using(
        async (objects) => {
          const names = [
            "log/a",
            "log/B",
            "log/1-",
            "log/1",
            "log/10",
            "log/1.",
            "log/2",
            "log/b/c",
            "logs",
            "mark/1",
          ];
          for (const name of names) await objects.put(name, bytesOf(name), true);
          const expected = names.filter((name) => name.startsWith("log/")).sort();
          expect(await listAll(objects, "log/")).toEqual(expected);
          for (const after of [...expected, "log/", "log/1,", "log/0", "log/zzz", "zzz"]) {
            const left = expected.filter((name) => name > after);
            expect(await listAll(objects, "log/", after), `after ${after}`).toEqual(left);
          }
          expect(await listAll(objects, "log/1")).toEqual(
            expected.filter((name) => name.startsWith("log/1")),
          );
          expect(await objects.list("none/", null)).toEqual({ names: [], isLast: true });
        },
        { pageSize: 2 },
      ));

    test("a list goes on after the names of a page were removed", () =>
      using(
        async (objects) => {
          for (let n = 1; n <= 7; n++) await objects.put(`log/${n}`, bytesOf("x"), true);
          const seen: string[] = [];
          for (let after: string | null = null; ;) {
            const page: NamePage = await objects.list("log/", after);
            seen.push(...page.names);
            await objects.remove(page.names);
            if (page.isLast) break;
            after = page.names.at(-1) as string;
          }
          expect(seen).toEqual(["log/1", "log/2", "log/3", "log/4", "log/5", "log/6", "log/7"]);
          expect((await objects.list("log/", null)).names).toEqual([]);
        },
        { pageSize: 3 },
      ));

    test("two prefixes hold names of their own", async () => {
      const prefix = freshPrefix();
      await using(
        async (ours) => {
          await ours.put("log/1", bytesOf("ours"), true);
          await using(
            async (theirs) => {
              expect(await theirs.get("log/1")).toBeNull();
              expect(await theirs.put("log/1", bytesOf("theirs"), true)).toBe("stored");
              expect((await theirs.list("", null)).names).toEqual(["log/1"]);
            },
            { prefix: `${prefix}inner/` },
          );
          expect(textOf(await ours.get("log/1"))).toBe("ours");
        },
        { prefix },
      );
    });

    test("names with odd characters are put, got, listed and removed", () =>
      using(async (objects) => {
        for (const name of oddNames)
          expect(await objects.put(name, bytesOf(name), true), name).toBe("stored");
        for (const name of oddNames) expect(textOf(await objects.get(name))).toBe(name);
        expect(await listAll(objects, "")).toEqual([...oddNames].sort());
        for (const name of oddNames) {
          expect(await listAll(objects, name)).toEqual([name]);
          expect(await listAll(objects, "", name)).toEqual(oddNames.filter((other) => other > name).sort());
        }
        await objects.remove(oddNames);
        expect(await listAll(objects, "")).toEqual([]);
      }));

    test("a name that is none is a wrong program", () =>
      using(async (objects) => {
        for (const name of ["", "/a", "a//b", "a/", ".a", "a/../b", "é", "a\\b", "x".repeat(513)]) {
          await expect(async () => objects.put(name, bytesOf("x"), true), name).rejects.toThrow(TypeError);
          await expect(async () => objects.get(name), name).rejects.toThrow(TypeError);
          await expect(async () => objects.remove([name]), name).rejects.toThrow(TypeError);
        }
      }));

    test("removing what is not there is no error, and what is beside it goes", () =>
      using(async (objects) => {
        await objects.put("log/1", bytesOf("x"), true);
        await objects.remove(["log/0", "log/1", "log/2"]);
        await objects.remove([]);
        expect(await listAll(objects, "")).toEqual([]);
        // The name is free again.
        expect(await objects.put("log/1", bytesOf("y"), true)).toBe("stored");
      }));

    test("after the close every verb is refused", async () => {
      const objects = await open({ prefix: freshPrefix() });
      await objects.close();
      const closed = { name: "ObjectsError", kind: "refused", outcome: "did-not-happen" };
      await expect(async () => objects.put("log/1", bytesOf("x"), true)).rejects.toMatchObject(closed);
      await expect(async () => objects.get("log/1")).rejects.toMatchObject(closed);
      await expect(async () => objects.list("", null)).rejects.toMatchObject(closed);
      await expect(async () => objects.remove(["log/1"])).rejects.toMatchObject(closed);
    });
  });
}

async function listAll(objects: Objects, prefix: string, from: string | null = null): Promise<string[]> {
  const names: string[] = [];
  for (let after = from; ;) {
    const page = await objects.list(prefix, after);
    names.push(...page.names);
    if (page.isLast) return names;
    expect(page.names.length).toBeGreaterThan(0);
    after = page.names.at(-1) as string;
  }
}
