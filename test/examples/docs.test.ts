// Every TypeScript block of the README and the docs compiles as it stands, and the README's quick start runs.
import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runScript } from "./run-script.ts";

const root = join(import.meta.dirname, "..", "..");

interface Block {
  /** Page and line. */
  readonly place: string;
  readonly file: string;
  readonly code: string;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => {
    const line = text.slice(0, match.index).split("\n").length;
    const file = `${page.replace(/\W+/g, "-")}-${line}.ts`;
    return { place: `${page}:${line}`, file, code: match[1] as string };
  });
}

const pages = [
  "README.md",
  ...globSync("docs/**/*.md", { cwd: root }).map((page) => page.replaceAll("\\", "/")),
];
const blocks = pages.flatMap(blocksOf);

/** Inside the repository, so that `import "millrace"` means this package; git ignores it. */
let folder = "";

beforeAll(() => {
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

afterAll(() => rmSync(folder, { recursive: true, force: true }));

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

  test("start with a quick start that runs and gives its result", async () => {
    const { file } = blocks.find(({ place }) => place.startsWith("README.md:")) as Block;
    const { code, out, err } = await runScript(join(folder, file), folder);
    expect(err).toBe("");
    expect(out).toContain("message-for-42");
    expect(code).toBe(0);
  });
});
