// What the rules ask about a source file, read out of its syntax tree (oxc-parser, the parser of the linter): whether
// it opens with a comment, which modules it names, and where it reads the clock. A word in a comment, a string or a
// template is never taken for code.
import { parseSync, Visitor } from "oxc-parser";
import type { Expression, ImportDeclarationSpecifier, ModuleExportName } from "oxc-parser";

/**
 * A module that the file names. `specifier` is null where the path is computed; `names` are those that the other module
 * exports.
 */
export type NamedModule = { specifier: string | null; names: string[]; line: number };

export type ParsedSource = {
  /** What the parser could not read; a rule can say nothing about such a file. */
  errors: string[];
  hasHeader: boolean;
  modules: NamedModule[];
  /**
   * Lines with `new Date()`, `new Date` or `Date()`; a Date made of a value is only a value. The linter sees
   * `Date.now`.
   */
  clockReadLines: number[];
  /** Lines that read the real clock or the time that was used, by whatever name the platform has here. */
  realTimeLines: number[];
  /** The strings of the code that are not keys of objects, and the names that follow a dot. */
  words: ReadonlySet<string>;
};

/** What tells the time, by what it is asked of. */
const clocksOf: Readonly<Record<string, readonly string[]>> = {
  Date: ["now"],
  performance: ["now"],
  process: ["hrtime", "cpuUsage"],
  nodePlatform: ["now", "monotonicUs"],
};

export function parseSource(path: string, source: string): ParsedSource {
  const { program, comments, errors } = parseSync(path, source);
  const modules: NamedModule[] = [];
  const clockReadLines: number[] = [];
  const realTimeLines: number[] = [];
  const words = new Set<string>();
  const keys = new Set<number>();
  let platformName = "nodePlatform";
  const name = (at: number, specifier: string | null, names: string[] = []): void =>
    void modules.push({ specifier, names, line: lineOf(source, at) });
  new Visitor({
    ImportDeclaration: (node) => {
      name(node.source.start, node.source.value, node.specifiers.map(importedName));
      const platform = node.specifiers.find((each) => importedName(each) === "nodePlatform");
      if (platform !== undefined) platformName = platform.local.name;
    },
    ExportAllDeclaration: (node) => name(node.source.start, node.source.value, ["*"]),
    ExportNamedDeclaration: ({ source: from, specifiers }) => {
      if (from === null) return;
      const names = specifiers.map(({ local }) => exportedName(local));
      name(from.start, from.value, names);
    },
    ImportExpression: (node) => name(node.start, literalText(node.source)),
    TSImportType: (node) => name(node.start, node.source.value),
    TSExternalModuleReference: (node) => name(node.start, literalText(node.expression)),
    NewExpression: (node) => {
      if (isNamed(node.callee, "Date") && node.arguments.length === 0)
        clockReadLines.push(lineOf(source, node.start));
      const [file, base] = node.arguments;
      if (isNamed(node.callee, "URL") && file?.type === "Literal" && isOwnUrl(base))
        name(node.start, literalText(file));
    },
    Property: ({ key }) => void keys.add(key.start),
    Literal: ({ value, start }) => {
      if (typeof value === "string" && !keys.has(start)) words.add(value);
    },
    MemberExpression: ({ object, property, start }) => {
      if (property.type === "Identifier") words.add(property.name);
      if (object.type !== "Identifier" || property.type !== "Identifier") return;
      const owner = object.name === platformName ? "nodePlatform" : object.name;
      if (Object.hasOwn(clocksOf, owner) && clocksOf[owner]?.includes(property.name))
        realTimeLines.push(lineOf(source, start));
    },
    // Called without `new`, Date tells the time whatever it is given.
    CallExpression: (node) => {
      if (isNamed(node.callee, "Date")) clockReadLines.push(lineOf(source, node.start));
    },
  }).visit(program);
  const [firstComment] = comments;
  const [firstStatement] = program.body;
  return {
    errors: errors.map(({ message }) => message),
    hasHeader: firstComment !== undefined && firstComment.start < (firstStatement?.start ?? Infinity),
    modules,
    clockReadLines,
    realTimeLines,
    words,
  };
}

function lineOf(source: string, at: number): number {
  return source.slice(0, at).split("\n").length;
}

function importedName(specifier: ImportDeclarationSpecifier): string {
  if (specifier.type === "ImportNamespaceSpecifier") return "*";
  return specifier.type === "ImportDefaultSpecifier" ? "default" : exportedName(specifier.imported);
}

function exportedName(name: ModuleExportName): string {
  return name.type === "Literal" ? name.value : name.name;
}

function isNamed(callee: Expression, name: string): boolean {
  return callee.type === "Identifier" && callee.name === name;
}

/** `import.meta.url` */
function isOwnUrl(base: { readonly type: string } | undefined): boolean {
  const node = base as Expression | undefined;
  return node?.type === "MemberExpression" && node.object.type === "MetaProperty";
}

/** The text of a string, or of a template without holes; null for everything that is put together at run time. */
function literalText(node: Expression): string | null {
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : null;
  if (node.type !== "TemplateLiteral" || node.expressions.length > 0) return null;
  return node.quasis[0]?.value.cooked ?? null;
}
