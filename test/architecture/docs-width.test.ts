/** Lines of prose in the docs have at most 120 columns. Tables and code cannot be wrapped and may be wider. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..", "..");
const columnsMax = 120;

function pages(): string[] {
  const inDocs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" });
  const all = [...readdirSync(root), ...inDocs.map((name) => join("docs", name))];
  return all.filter((name) => name.endsWith(".md"));
}

/** The numbers of lines of prose that are too wide. */
function tooWide(text: string): number[] {
  let isCode = false;
  const found: number[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trimStart().startsWith("```")) isCode = !isCode;
    else if (!isCode && !line.startsWith("|") && Array.from(line).length > columnsMax) found.push(index + 1);
  }
  return found;
}

test("prose of the docs is wrapped at 120 columns", () => {
  const found = pages().flatMap((page) =>
    tooWide(readFileSync(join(root, page), "utf8")).map((line) => `${page}:${line}`),
  );
  expect(found).toEqual([]);
});

test("a planted line is found, and neither a row of a table nor code", () => {
  const long = "a".repeat(121);
  expect(tooWide(`short\n${long}\n| ${long} |\n\`\`\`\n${long}\n\`\`\`\n- ${long}`)).toEqual([2, 7]);
});
