// The page that walks a job through the source names functions: each is declared in the file that the page names.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync, Visitor } from "oxc-parser";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..", "..");
const page = readFileSync(join(root, "docs/concepts/the-walk-of-a-job.md"), "utf8");

/** Functions, classes and their members. */
function declaredIn(file: string): ReadonlySet<string> {
  const names = new Set<string>();
  const { program } = parseSync(file, readFileSync(join(root, "src", file), "utf8"));
  const member = ({ key }: { readonly key: { readonly type: string; readonly name?: unknown } }): void =>
    void names.add(`${key.type === "PrivateIdentifier" ? "#" : ""}${String(key.name)}`);
  new Visitor({
    FunctionDeclaration: ({ id }) => void names.add(id?.name ?? ""),
    ClassDeclaration: ({ id }) => void names.add(id?.name ?? ""),
    MethodDefinition: member,
    PropertyDefinition: member,
    TSMethodSignature: member,
    Property: member,
  }).visit(program);
  return names;
}

test("the walk of a job names functions that are declared in their files", () => {
  const visits = [...page.matchAll(/\| `([\w/.-]+\.ts)` \| `(#?\w+)` \|/g)];
  expect(visits.length).toBeGreaterThan(40);
  const missing = visits.filter(([, file = "", name = ""]) => !declaredIn(file).has(name));
  expect(missing.map(([line]) => line)).toEqual([]);
});

test("the walk of a job counts its own lines and files", () => {
  const visits = page
    .split("\n### ")
    .slice(1)
    .map((section) => {
      const files = [...section.matchAll(/^\| \d+ \| `([\w/.-]+\.ts)`/gm)].map(([, file]) => file);
      return [section.slice(0, section.indexOf("\n")).toLowerCase(), files.length, new Set(files).size];
    });
  const counted = [...page.matchAll(/^\| (from .*) \| (\d+) \| (\d+) \|$/gm)];
  expect(
    counted.map(([, part = "", lines, files]) => [part.toLowerCase(), Number(lines), Number(files)]),
  ).toEqual(visits);
});
