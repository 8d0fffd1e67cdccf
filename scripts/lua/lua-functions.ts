// The functions that a text of Lua registers for callers outside: as `serve...("name", ...)`, as the function_name of
// redis.register_function, or as `function OPERATIONS.name`.
import type { Expression, Identifier, Node, StringLiteral } from "luaparse";
import { readLuaNames } from "./lua-names.ts";

export function servedFunctions(text: string): string[] {
  return readLuaNames(text).chunk.body.flatMap(servedIn);
}

function servedIn(node: Node): string[] {
  if (node.type === "FunctionDeclaration") {
    const name = node.identifier;
    return name?.type === "MemberExpression" && nameOf(name.base) === "OPERATIONS"
      ? [name.identifier.name]
      : [];
  }
  if (node.type !== "CallStatement" || node.expression.type !== "CallExpression") return [];
  const { base, arguments: given } = node.expression;
  // A module's own scope.
  if (nameOf(base) === "module" && given[0]?.type === "FunctionDeclaration")
    return (given[0] as unknown as { body: Node[] }).body.flatMap(servedIn);
  if (nameOf(base)?.startsWith("serve") === true) return [`mr1_${textOf(given[0])}`];
  if (base.type !== "MemberExpression" || base.identifier.name !== "register_function") return [];
  const [first] = given;
  if (first?.type !== "TableConstructorExpression") return [textOf(first)];
  return first.fields.flatMap((field) =>
    field.type === "TableKeyString" && field.key.name === "function_name" ? [textOf(field.value)] : [],
  );
}

function nameOf(node: Expression | null): string | undefined {
  return node?.type === "Identifier" ? (node as Identifier).name : undefined;
}

function textOf(node: Expression | undefined): string {
  if (node?.type !== "StringLiteral")
    throw new Error("a function is registered under a name that is no text");
  return (node as StringLiteral).value;
}
