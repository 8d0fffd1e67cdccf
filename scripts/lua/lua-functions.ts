// The functions that a library of Lua registers for callers outside: as `serve...("name", ...)`, as the function_name
// of redis.register_function, or as `function OPERATIONS.name`; and all that one of them calls.
import type { Expression, Identifier, Node, Statement, StringLiteral } from "luaparse";
import { readLuaNames } from "./lua-names.ts";
import type { LuaVariable } from "./lua-names.ts";

/** The statements of a text, with those of its modules. */
const statementsOf = (body: readonly Statement[]): Statement[] =>
  body.flatMap((node) => {
    const scope = scopeOf(node);
    return scope === undefined ? [node] : statementsOf(scope);
  });

export function servedFunctions(text: string): string[] {
  return statementsOf(readLuaNames(text).chunk.body).flatMap(namesServed);
}

/** A served function with all that it calls, in the order of the library, and the comments of each. */
export function functionText(text: string, name: string): string | undefined {
  const { chunk, meaningOf } = readLuaNames(text);
  const statements = statementsOf(chunk.body);
  const declaredBy = new Map<LuaVariable, Statement>();
  const given = new Map<string, LuaVariable>();
  for (const node of statements) {
    if (node.type === "LocalStatement")
      for (const variable of node.variables) note(declaredBy, meaningOf.get(variable), node);
    else if (node.type === "FunctionDeclaration" && node.isLocal)
      note(declaredBy, meaningOf.get(node.identifier as Identifier), node);
    else if (node.type === "AssignmentStatement")
      for (const [at, place] of node.variables.entries())
        if (place.type === "MemberExpression" && nameOf(place.base) === "M")
          given.set(place.identifier.name, meaningOf.get(node.init[at] as Identifier) as LuaVariable);
  }
  const needed = new Set<Statement>();
  const add = (node: Statement | undefined): void => {
    if (node === undefined || needed.has(node)) return;
    needed.add(node);
    for (const [identifier, variable] of meaningOf)
      if (isWithin(identifier, node)) add(declaredBy.get(taken(variable) ?? variable));
  };
  /** What a module takes of M is declared where it was given. */
  const taken = (variable: LuaVariable): LuaVariable | undefined => {
    const node = declaredBy.get(variable);
    const isTaken = node?.type === "LocalStatement" && node.init.every(isOfM);
    return isTaken ? given.get(variable.name) : undefined;
  };
  const root = statements.find((node) => namesServed(node).includes(name));
  if (root === undefined) return undefined;
  add(root);
  const texts = statements.flatMap((node, at) => {
    if (!needed.has(node)) return [];
    const before = statements[at - 1];
    const gap = text.slice(before === undefined ? 0 : endOf(before), startOf(node));
    const comments = gap.slice(gap.lastIndexOf("module(function()") + 1).match(/(?:^--.*\n)+$/m)?.[0] ?? "";
    return [`${comments}${text.slice(startOf(node), endOf(node))}`];
  });
  return texts.join("\n\n");
}

function namesServed(node: Node): string[] {
  if (node.type === "FunctionDeclaration") {
    const name = node.identifier;
    return name?.type === "MemberExpression" && nameOf(name.base) === "OPERATIONS"
      ? [`OPERATIONS.${name.identifier.name}`]
      : [];
  }
  if (node.type !== "CallStatement" || node.expression.type !== "CallExpression") return [];
  const { base, arguments: given } = node.expression;
  if (nameOf(base)?.startsWith("serve") === true) return [`mr1_${textOf(given[0])}`];
  if (base.type !== "MemberExpression" || base.identifier.name !== "register_function") return [];
  const [first] = given;
  if (first?.type !== "TableConstructorExpression") return [textOf(first)];
  return first.fields.flatMap((field) =>
    field.type === "TableKeyString" && field.key.name === "function_name" ? [textOf(field.value)] : [],
  );
}

/** The statements of a module: `module(function() ... end)`. */
function scopeOf(node: Statement): Statement[] | undefined {
  if (node.type !== "CallStatement" || node.expression.type !== "CallExpression") return undefined;
  const { base, arguments: given } = node.expression;
  const [define] = given as readonly Node[];
  return nameOf(base) === "module" && define?.type === "FunctionDeclaration" ? define.body : undefined;
}

function note<Key, Value>(map: Map<Key, Value>, key: Key | undefined, value: Value): void {
  if (key !== undefined) map.set(key, value);
}

const isOfM = (node: Expression): boolean => node.type === "MemberExpression" && nameOf(node.base) === "M";
const startOf = (node: Node): number => rangeOf(node)[0];
const endOf = (node: Node): number => rangeOf(node)[1];
const isWithin = (inner: Node, outer: Node): boolean =>
  startOf(inner) >= startOf(outer) && endOf(inner) <= endOf(outer);

/** luaparse gives it with the option `ranges`; its types leave it out. */
function rangeOf(node: Node): readonly [number, number] {
  return (node as unknown as { range: readonly [number, number] }).range;
}

function nameOf(node: Expression | null): string | undefined {
  return node?.type === "Identifier" ? (node as Identifier).name : undefined;
}

function textOf(node: Expression | undefined): string {
  if (node?.type !== "StringLiteral")
    throw new Error("a function is registered under a name that is no text");
  return (node as StringLiteral).value;
}
