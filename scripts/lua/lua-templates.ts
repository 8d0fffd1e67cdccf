// The templates of Lua in a source file, in one style (stylua). What a template puts in is a name of the same width
// while it is formatted, or a call where it stands alone on its line, as generated statements do.
import {
  CollapseSimpleStatement,
  Config,
  IndentType,
  LuaVersion,
  OutputVerification,
  formatCode,
} from "@johnnymorganz/stylua";
import { parseSync, Visitor } from "oxc-parser";

/** The columns of a line, here and in oxfmt's comments. */
const widthMax = 120;

/** The file with all its templates of Lua formatted. */
export function formatLuaTemplates(path: string, source: string): string {
  const templates: { start: number; end: number; holes: { start: number; end: number }[] }[] = [];
  new Visitor({
    TaggedTemplateExpression: ({ tag, quasi }) => {
      if (tag.type !== "Identifier" || tag.name !== "lua") return;
      const holes = quasi.expressions.map(({ start, end }) => ({
        start: source.lastIndexOf("${", start),
        end: source.indexOf("}", end) + 1,
      }));
      templates.push({ start: quasi.start + 1, end: quasi.end - 1, holes });
    },
  }).visit(parseSync(path, source).program);
  let formatted = source;
  for (const { start, end, holes } of templates.toReversed()) {
    const texts = holes.map((hole) => source.slice(hole.start, hole.end));
    let lua = source.slice(start, end);
    for (const [at, hole] of [...holes.entries()].toReversed())
      lua = lua.slice(0, hole.start - start) + nameOf(at, texts[at] as string) + lua.slice(hole.end - start);
    formatted = formatted.slice(0, start) + formatTemplate(lua, texts) + formatted.slice(end);
  }
  return formatted;
}

function formatTemplate(text: string, holes: readonly string[]): string {
  // A name alone on its line is no statement. Of two calls, no block becomes one line.
  const statements = text.replaceAll(/^([ ]*)(_\d+_+)$/gm, "$1$2()\n$1$2()");
  let lua = formatCode(statements, config(), undefined, OutputVerification.None);
  lua = lua.replaceAll(/^([ ]*_\d+_+)\(\)\n\1\(\)$/gm, "$1");
  for (const [at, hole] of holes.entries()) lua = lua.split(nameOf(at, hole)).join(hole);
  return `\n${lua}`;
}

/** No name begins another one, because all end in the same mark after their numbers. */
function nameOf(at: number, hole: string): string {
  const [line = ""] = hole.split("\n");
  return `_${at + 1}_`.padEnd(line.length, "_");
}

function config(): Config {
  const style = Config.new();
  style.syntax = LuaVersion.Lua51;
  style.column_width = widthMax;
  style.indent_type = IndentType.Spaces;
  style.indent_width = 2;
  style.collapse_simple_statement = CollapseSimpleStatement.Always;
  return style;
}
