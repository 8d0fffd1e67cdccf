// Keeps the shape of src/: reads every source file and holds it against the rules of source-rules.ts, and proves on
// planted violations that each rule bites.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { describe, expect, test } from "vitest";
import { parseSource } from "./parsed-source.ts";
import { folderViolationsOf, timeViolationsOf, violationsOf } from "./source-rules.ts";

const root = join(import.meta.dirname, "..", "..");

function pathsIn(folder: string): string[] {
  const entries = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return entries
    .map((entry) => `${folder}/${entry.split(sep).join("/")}`)
    .filter((path) => path.endsWith(".ts"))
    .toSorted();
}

const sourcePaths = (): string[] => pathsIn("src");
const testPaths = (): string[] => [
  ...pathsIn("test"),
  ...["src", "bench"].flatMap(pathsIn).filter((path) => path.endsWith(".test.ts")),
];

describe("the sources", () => {
  test("keep the dependency rules and the headers", () => {
    const violations = sourcePaths().flatMap((path) =>
      violationsOf({ path, source: readFileSync(join(root, path), "utf8") }),
    );
    expect(violations.join("\n")).toBe("");
  });

  test("are found at all", () => {
    expect(sourcePaths()).toContain("src/model/error.ts");
  });
});

describe("the folders", () => {
  test("hold neither one file nor too many", () => {
    const paths = ["src", "bench", "examples", "scripts", "test"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => `${relative(root, entry.parentPath).split(sep).join("/")}/${entry.name}`)
        // Printed by a command, one file for each function of a server: nobody looks for a place there.
        .filter((path) => !path.startsWith("test/assembled/")),
    );
    expect(folderViolationsOf(paths).join("\n")).toBe("");
  });

  test("are refused with one file, and with 26 besides tests", () => {
    const files = (count: number, end: string): string[] =>
      Array.from({ length: count }, (_, at) => `src/model/job/${at}${end}`);
    expect(folderViolationsOf(["src/model/a.ts", "src/model/b.ts", "src/model/job/a.ts"])).toEqual([
      "src/model/job holds one file only: move the file to the folder above.",
    ]);
    expect(folderViolationsOf(files(26, ".ts"))).toEqual([
      "src/model/job holds 26 files: split it by feature, so that none holds more than 25.",
    ]);
    expect(folderViolationsOf([...files(25, ".ts"), ...files(9, ".test.ts")])).toEqual([]);
    expect(folderViolationsOf(["src/store/store.ts", "src/store/a/b.ts", "src/store/a/c.ts"])).toEqual([]);
  });
});

describe("the tests", () => {
  test("do not read the real clock", () => {
    const violations = testPaths().flatMap((path) =>
      timeViolationsOf({ path, source: readFileSync(join(root, path), "utf8") }),
    );
    expect(violations.join("\n")).toBe("");
  });

  test.each([
    "expect(performance.now() - began).toBeLessThan(5);",
    "const began = Date.now();",
    "const began = process.hrtime.bigint();",
    "const used = process.cpuUsage();",
    'import { nodePlatform } from "./a.ts"; nodePlatform.monotonicUs();',
    'import { nodePlatform as platform } from "./a.ts"; platform.now();',
  ])("are refused with %s", (source) => {
    expect(timeViolationsOf({ path: "test/a.test.ts", source })).toHaveLength(1);
  });

  test("may read the virtual clock", () => {
    const source = 'import type { Platform } from "./a.ts"; platform.now(); v.platform.now(); time.now;';
    expect(timeViolationsOf({ path: "test/a.test.ts", source })).toEqual([]);
  });
});

describe("the rules refuse", () => {
  const planted: [title: string, path: string, line: string, sentence: RegExp][] = [
    [
      "a model that imports the engine",
      "src/model/rank.ts",
      `import "../engine/claim.ts";`,
      /model may import nothing, not engine/,
    ],
    [
      "a model that imports from Node",
      "src/model/rank.ts",
      `import { inspect } from "node:util";`,
      /imports nothing from Node/,
    ],
    [
      "a type import against the direction",
      "src/store/store.ts",
      `import type { A } from "../engine/a.ts";`,
      /store may import model, not engine/,
    ],
    [
      "a re-export against the direction",
      "src/codec/codec.ts",
      `export * from "../store/store.ts";`,
      /codec may import model, not store/,
    ],
    [
      "a typed re-export against the direction",
      "src/codec/codec.ts",
      `export type { A } from "../store/a.ts";`,
      /not store/,
    ],
    [
      "a dynamic import against the direction",
      "src/engine/a.ts",
      `const a = await import("../worker/slot.ts");`,
      /not worker/,
    ],
    [
      "a file reached by URL against the direction",
      "src/engine/a.ts",
      `new URL("../worker/a.ts", import.meta.url);`,
      /not worker/,
    ],
    [
      "an engine that imports a store",
      "src/engine/a.ts",
      `import { a } from "../stores/sqlite/a.ts";`,
      /names the concrete store/,
    ],
    [
      "a client that names a store",
      "src/client/a.ts",
      `import { a } from "../stores/sqlite/a.ts";`,
      /names the concrete store/,
    ],
    [
      "an index that names a store",
      "src/index.ts",
      `export { a } from "./stores/sqlite/a.ts";`,
      /names the concrete store/,
    ],
    [
      "a store that imports the engine",
      "src/stores/sqlite/a.ts",
      `import "../../engine/a.ts";`,
      /not engine/,
    ],
    [
      "a store that imports another store",
      "src/stores/sqlite/a.ts",
      `import "../redis/a.ts";`,
      /stores never import each other/,
    ],
    ["a worker that imports the client", "src/worker/a.ts", `import "../client/a.ts";`, /not client/],
    [
      "a dashboard that imports anything",
      "src/dashboard/a.ts",
      `import "../client/a.ts";`,
      /dashboard may import nothing/,
    ],
    ["a source that imports a test", "src/model/a.ts", `import "./b.test.ts";`, /imports the test/],
    ["a source that leaves src", "src/model/a.ts", `import "../../test/a.ts";`, /outside src/],
    [
      "a driver outside the file that loads it",
      "src/stores/postgres/a.ts",
      `import pg from "pg";`,
      /has no dependencies/,
    ],
    ["a dependency", "src/engine/a.ts", `import { z } from "zod";`, /has no dependencies/],
    [
      "timers outside platform",
      "src/engine/a.ts",
      `import { setTimeout } from "node:timers/promises";`,
      /only platform/,
    ],
    [
      "sqlite outside the stores",
      "src/engine/a.ts",
      `import { DatabaseSync } from "node:sqlite";`,
      /only stores/,
    ],
    [
      "randomness outside platform",
      "src/engine/a.ts",
      `import { randomUUID } from "node:crypto";`,
      /only platform draws/,
    ],
    [
      "randomness by way of the whole module",
      "src/engine/a.ts",
      `import * as crypto from "node:crypto";`,
      /only platform draws/,
    ],
    [
      "what an older Node.js lacks, by its name, in a file that is always loaded",
      "src/platform/a.ts",
      `import { zstdCompress } from "node:zlib";`,
      /could not load the package/,
    ],
    [
      "a type named by its file against the direction",
      "src/engine/a.ts",
      `type A = import("../worker/a.ts").A;`,
      /not worker/,
    ],
    ["a computed import", "src/engine/a.ts", "const a = await import(path);", /computed path/],
    [
      "an import put together from a literal",
      "src/engine/a.ts",
      `await import("../" + path);`,
      /computed path/,
    ],
    ["a clock read with new Date()", "src/model/a.ts", "const now = new Date();", /reads the clock/],
    ["a clock read with Date()", "src/model/a.ts", "const now = Date(5);", /reads the clock/],
    ["a clock read with new Date", "src/model/a.ts", "const now = +new Date;", /reads the clock/],
    [
      "a clock read inside a template",
      "src/model/a.ts",
      "const now = `${`${new Date()}`}`;",
      /reads the clock/,
    ],
    ["an unknown folder", "src/shiny/a.ts", "export const a = 1;", /"shiny".*add it to MAY_IMPORT/],
    ["an unknown file in src itself", "src/extra.ts", "export const a = 1;", /"extra".*add it to MAY_IMPORT/],
  ];

  test.each(planted)("%s", (_title, path, line, sentence) => {
    const source = `// Header.\nconst before = 4 / 2; // "\n${line}\n`;
    const violations = violationsOf({ path, source });
    expect(violations).toHaveLength(1);
    expect(violations[0]).toMatch(sentence);
    expect(violations[0]?.startsWith(`${path} `)).toBe(true);
  });

  test("a file without a header", () => {
    const violations = violationsOf({ path: "src/model/a.ts", source: "export const a = 1;\n" });
    expect(violations).toEqual(["src/model/a.ts starts without a header comment that says its duty."]);
  });

  test("a file that is no TypeScript, because no rule can be held against it", () => {
    const [sentence] = violationsOf({ path: "src/model/a.ts", source: "// Header.\nimport {;\n" });
    expect(sentence).toMatch(/^src\/model\/a.ts does not parse: /);
  });
});

describe("the rules allow", () => {
  const fine: [title: string, path: string, source: string][] = [
    ["the open file to name a store", "src/open.ts", `import { a } from "./stores/sqlite/a.ts";`],
    ["the cli to name a store", "src/cli/doctor.ts", `import { a } from "../stores/sqlite/a.ts";`],
    ["the testing folder to name a store", "src/testing/a.ts", `import { a } from "../stores/sqlite/a.ts";`],
    [
      "a test to import what it likes",
      "src/model/a.test.ts",
      `import { z } from "zod"; import "../stores/sqlite/a.ts";`,
    ],
    [
      "a store its own folder, sqlite and files",
      "src/stores/sqlite/a.ts",
      `import "./b.ts"; import "node:sqlite"; import "node:fs";`,
    ],
    ["the cli to load the user's jobs", "src/cli/work.ts", "const jobs = await import(path);"],
    ["a Date made of a value", "src/codec/a.ts", "const at = new Date(5); const is = at instanceof Date;"],
    ["a header under a shebang", "src/cli/main.ts", "#!/usr/bin/env node"],
  ];

  test.each(fine)("%s", (_title, path, source) => {
    const header = source.startsWith("#!") ? `${source}\n// Header.\n` : `// Header.\n${source}\n`;
    expect(violationsOf({ path, source: header })).toEqual([]);
  });
});

test("a word in a comment, a string, a template or a regular expression is no import", () => {
  const source = [
    `// import "a";`,
    `/* export * from "b"; */`,
    `const c = 'import "c"';`,
    'const d = `import "d" ${/import "e"}/.test(`${1} / 2`) ? "}" : 1} import "f"`;',
    `const g = 6 / 2; const h = /[/"]import "h"/g; type I = { import: string; from: "i" }; j.import("j");`,
    `export const k = { from: "k" }; export function l() { return "l"; } export { k as m };`,
    `import n, { type o as p, q } from "r";`,
  ].join("\n");
  expect(parseSource("a.ts", source)).toMatchObject({
    errors: [],
    modules: [{ specifier: "r", names: ["default", "o", "q"], line: 7 }],
  });
});
