// Every TypeScript block of the README and the docs compiles as it stands, and every one of ours runs to its end
// without a word on standard error, but for attempts that fail as they should. What stands behind "ts" in a fence says
// how a block is treated otherwise:
//   peer      code for another library, in the pages for those who come from it: compiled, not run
//   service   runs until it is told to stop: it must say that it is ready, and end well on SIGTERM
// The servers that a block may use are named by DATABASE_URL and REDIS_URL.
import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { redisUrl, RedisPrefixes } from "../support/servers/redis-shared.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { checkOldest, oldestNode, oldestVersions } from "../support/oldest-supported.ts";
import { runScript } from "./run-script.ts";

const root = join(import.meta.dirname, "..", "..");

interface Block {
  /** Page and line. */
  readonly place: string;
  readonly file: string;
  readonly code: string;
  readonly treatment: "run" | "peer" | "service";
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/^```ts(?: (peer|service))?\n([\s\S]*?)^```$/gm)].map((match) => {
    const line = text.slice(0, match.index).split("\n").length;
    const file = `${page.replace(/\W+/g, "-")}-${line}.ts`;
    const treatment = (match[1] ?? "run") as Block["treatment"];
    return { place: `${page}:${line}`, file, code: match[2] as string, treatment };
  });
}

const pages = [
  "README.md",
  ...globSync("docs/**/*.md", { cwd: root }).map((page) => page.replaceAll("\\", "/")),
];
const blocks = pages.flatMap(blocksOf);

// Its embedded SQLite and its way with types are experiments there, and say so on standard error.
const quiet = "--disable-warning=ExperimentalWarning";

const database = useTestDatabase();
let prefixes: RedisPrefixes;

/** Inside the repository, so that `import "millrace"` means this package; git ignores it. */
let folder = "";

beforeAll(async () => {
  prefixes = new RedisPrefixes(await redisUrl());
  mkdirSync(join(root, ".millrace"), { recursive: true });
  folder = mkdtempSync(join(root, ".millrace", "docs-"));
  for (const { file, code } of blocks) writeFileSync(join(folder, file), code);
  const tsconfig = {
    extends: "../../tsconfig.json",
    compilerOptions: { moduleDetection: "force" },
    include: ["*.ts"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(tsconfig));
});

afterAll(() => {
  prefixes.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("the docs", () => {
  test("have code to check", () => {
    expect(blocks.map(({ place }) => place.split(":")[0])).toContain("README.md");
  });

  test("compile, every block of them", () => {
    const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
    const { status, stdout } = spawnSync(process.execPath, [tsc, "--noEmit", "-p", folder], {
      encoding: "utf8",
      cwd: folder,
    });
    // The compiler names the files made from the blocks; people want the page and its line.
    const told = blocks.reduce((text, { file, place }) => text.replaceAll(file, place), stdout);
    expect(told).toBe("");
    expect(status).toBe(0);
  });

  test("mark their blocks only in ways that are known here", () => {
    const fences = pages.flatMap((page) => readFileSync(join(root, page), "utf8").match(/^```ts.*$/gm) ?? []);
    expect(fences).toHaveLength(blocks.length);
  });

  const ours = blocks.filter(({ treatment }) => treatment !== "peer");
  test.each(ours)("run at $place", async ({ file, treatment }) => {
    const cwd = mkdtempSync(join(folder, "run-"));
    const prefix = prefixes.next();
    const env = { DATABASE_URL: database.url, REDIS_URL: `${prefixes.url}?prefix=${prefix}` };
    const end = await runScript(join(folder, file), cwd, { env, isService: treatment === "service" });
    await prefixes.clear(prefix);
    expect(end.err.replace(/^millrace warn attempt \d+ of \d+ failed, .*\n/gm, "")).toBe("");
    expect(end.code).toBe(0);
    if (file.startsWith("README")) expect(end.out).toContain("message-for-42");
  });

  const newer = "await using needs Node 24";
  const { node: version } = oldestVersions;

  test.skipIf(oldestNode === null)(
    `Node ${version} reads every block, unless it says that it needs a newer one`,
    () => {
      const files = ours.map(({ file }) => join(folder, file));
      const parse = `
      const { readFileSync } = require("node:fs");
      const { SourceTextModule } = require("node:vm");
      const { stripTypeScriptTypes } = require("node:module");
      const refused = JSON.parse(readFileSync(0, "utf8")).map((file) => {
        try {
          new SourceTextModule(stripTypeScriptTypes(readFileSync(file, "utf8")));
          return false;
        } catch (error) {
          if (!(error instanceof SyntaxError)) throw error;
          return true;
        }
      });
      console.log(JSON.stringify(refused));`;
      const args = ["--experimental-vm-modules", quiet, "-e", parse];
      const { stdout, stderr } = spawnSync(checkOldest(oldestNode as string), args, {
        encoding: "utf8",
        input: JSON.stringify(files),
      });
      expect(stderr).toBe("");
      const refused = JSON.parse(stdout) as boolean[];
      const placesOf = (isMeant: (at: number) => boolean | undefined): string[] =>
        ours.filter((_, at) => isMeant(at)).map(({ place }) => place);
      expect(placesOf((at) => refused[at])).toEqual(placesOf((at) => ours[at]?.code.includes(newer)));
    },
  );

  const sample = ours.filter(({ place }) => /^(README|docs\/guides\/(flows|sandboxes))\.md/.test(place));
  test.skipIf(oldestNode === null).each(sample)(`run at $place on Node ${version}`, async (block) => {
    const cwd = mkdtempSync(join(folder, "oldest-"));
    const prefix = prefixes.next();
    const env = { DATABASE_URL: database.url, REDIS_URL: `${prefixes.url}?prefix=${prefix}` };
    const node = [checkOldest(oldestNode as string), quiet] as const;
    const isService = block.treatment === "service";
    const end = await runScript(join(folder, block.file), cwd, { env, isService, node });
    await prefixes.clear(prefix);
    expect(end.err.replace(/^millrace warn attempt \d+ of \d+ failed, .*\n/gm, "")).toBe("");
    expect(end.code).toBe(0);
  });
});
