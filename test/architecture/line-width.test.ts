/**
 * Lines of prose have at most 120 columns: those of the docs and of the measurement notes, whose tables and code cannot
 * be wrapped and may be wider, and the comments of all sources. The formatter wraps code and leaves comments and
 * templates as they are. So SQL and Lua have their own tests here: they are in tagged templates, and as narrow.
 */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parseSync, Visitor } from "oxc-parser";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..", "..");
const columnsMax = 120;

function pages(): string[] {
  const inFolders = ["docs", "bench/notes"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  );
  const all = [...readdirSync(root), ...inFolders];
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

function sources(): string[] {
  const all = ["src", "test", "bench", "scripts"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  );
  return all.filter((name) => /\.(ts|mjs)$/.test(name));
}

/** The numbers of lines of comments that are too wide. What looks like a comment in a string or a template is none. */
function tooWideComments(path: string, source: string): number[] {
  const lines = source.split("\n");
  if (lines.every((line) => Array.from(line).length <= columnsMax)) return [];
  return parseSync(path, source).comments.flatMap(({ start, end }) => {
    const first = source.slice(0, start).split("\n").length;
    const last = first + source.slice(start, end).split("\n").length - 1;
    return Array.from({ length: last - first + 1 }, (_, index) => first + index).filter(
      (number) => Array.from(lines[number - 1] ?? "").length > columnsMax,
    );
  });
}

test("comments of the sources are wrapped at 120 columns", () => {
  const found = sources().flatMap((path) =>
    tooWideComments(path, readFileSync(join(root, path), "utf8")).map((line) => `${path}:${line}`),
  );
  expect(found).toEqual([]);
});

test("a planted comment is found, and neither a string nor what looks like a comment in a template", () => {
  const long = "a".repeat(121);
  const source = `// ${long}\nf("${long}");\nf(\`\n// ${long}\n\`);\n/**\n * ${long}\n */\nf(); // ${long}`;
  expect(tooWideComments("planted.ts", source)).toEqual([1, 7, 9]);
});

interface SourceTemplate {
  readonly tag: string | null;
  readonly line: number;
  readonly text: string;
}

/** The templates of a source: the tag of each, its first line in the file, and its text as it stands there. */
function templatesIn(path: string, source: string): SourceTemplate[] {
  const tags = new Map<number, string>();
  const found: SourceTemplate[] = [];
  new Visitor({
    TaggedTemplateExpression: ({ tag, quasi }) =>
      void tags.set(quasi.start, source.slice(tag.start, tag.end)),
    TemplateLiteral: ({ start, end }) => {
      const line = source.slice(0, start).split("\n").length;
      found.push({ tag: tags.get(start) ?? null, line, text: source.slice(start + 1, end - 1) });
    },
  }).visit(parseSync(path, source).program);
  return found;
}

const storeSources = (): string[] =>
  sources().filter((path) => path.startsWith(join("src", "store")) && !path.endsWith(".test.ts"));

const beginsLikeSql = /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP) /;

/** Lines at which SQL of several lines begins without its tag, and lines of SQL and Lua that are too wide. */
function unreadableTemplates(path: string, source: string): number[] {
  const lines = source.split("\n");
  return templatesIn(path, source).flatMap(({ tag, line, text }) => {
    const isSql = tag === "sql" || beginsLikeSql.test(text);
    if (!isSql && tag !== "lua") return [];
    const count = text.split("\n").length;
    const wide = Array.from({ length: count }, (_, index) => line + index).filter(
      (number) => Array.from(lines[number - 1] ?? "").length > columnsMax,
    );
    return isSql && tag !== "sql" && count > 1 ? [line, ...wide] : wide;
  });
}

test("SQL of several lines and Lua stand in tagged templates, in lines of at most 120 columns", () => {
  const found = storeSources().flatMap((path) =>
    unreadableTemplates(path, readFileSync(join(root, path), "utf8")).map((line) => `${path}:${line}`),
  );
  expect(found).toEqual([]);
});

test("a planted template is found: SQL without a tag, and lines of SQL and Lua that are too wide", () => {
  const wide = "a".repeat(121);
  const source = [
    "const one = `SELECT 1`;",
    "const two = `SELECT 1\n  FROM t`;",
    `const three = sql\`\n  SELECT ${wide}\`;`,
    `const four = lua\`\nlocal ${wide}\`;`,
    `const five = \`no query of ${wide}\`;`,
  ].join("\n");
  expect(unreadableTemplates("planted.ts", source)).toEqual([2, 5, 7]);
});
