/**
 * A decision record is one page: at most 900 words. The index of docs/decisions lists each record once, in the order of
 * the numbers, under the record's own title, and says which records another one has replaced.
 */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const folder = join(import.meta.dirname, "..", "..", "docs", "decisions");
const wordsMax = 900;

interface DecisionRecord {
  readonly file: string;
  readonly text: string;
}

function readRecords(): DecisionRecord[] {
  const files = readdirSync(folder).filter((name) => /^\d{4}-.*\.md$/.test(name));
  return files.toSorted().map((file) => ({ file, text: readFileSync(join(folder, file), "utf8") }));
}

/** The line of the index for a record. */
function lineOf({ file, text }: DecisionRecord): string {
  const [, number, title] = /^# (\d{4}): (.*)$/m.exec(text) ?? [];
  const [, replacedBy] = /^Status: replaced by \[?(\d{4})/m.exec(text) ?? [];
  return `- [${number}](${file}): ${title}${replacedBy === undefined ? "" : ` (replaced by ${replacedBy})`}`;
}

/** The lines of the index that begin with a link to a record, each with its continuation. */
function linesOf(index: string): string[] {
  return [...index.matchAll(/^- \[\d{4}\].*(?:\n {2}\S.*)*/gm)].map(([line]) => line.replace(/\n {2}/g, " "));
}

const wordsOf = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length;

function tooLong(records: readonly DecisionRecord[]): string[] {
  return records
    .filter(({ text }) => wordsOf(text) > wordsMax)
    .map(({ file, text }) => `${file}: ${wordsOf(text)} words`);
}

test(`a decision record has at most ${wordsMax} words`, () => {
  expect(tooLong(readRecords())).toEqual([]);
});

test("the index lists each record under its title, in order", () => {
  const index = readFileSync(join(folder, "README.md"), "utf8");
  expect(linesOf(index)).toEqual(readRecords().map(lineOf));
});

test("no two records have one number", () => {
  const numbers = readRecords().map(({ file }) => file.slice(0, 4));
  expect(new Set(numbers).size).toBe(numbers.length);
});

test("planted: a long record is found, and so is one that the index lists under another title or not at all", () => {
  const text = (words: number): string => `# 0001: A title\n\nStatus: accepted\n\n${"word ".repeat(words)}`;
  const long = { file: "0001-a-title.md", text: text(wordsMax) };
  expect(tooLong([long])).toEqual([`0001-a-title.md: ${wordsMax + 6} words`]);
  expect(tooLong([{ ...long, text: text(wordsMax - 6) }])).toEqual([]);

  const replaced = { file: "0002-old.md", text: "# 0002: Old\n\nStatus: replaced by [0003](0003-new.md)\n" };
  const index = "- [0001](0001-a-title.md): A\n  title\n- [0002](0002-old.md): Old (replaced by 0003)\n";
  expect(linesOf(index)).toEqual([long, replaced].map(lineOf));
  expect(linesOf(index.replace("title\n", "name\n"))).not.toEqual([long, replaced].map(lineOf));
  expect(linesOf(index.split("\n").slice(0, 2).join("\n"))).not.toEqual([long, replaced].map(lineOf));
});
