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
});
