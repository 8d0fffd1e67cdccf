// What the names in a text of Lua mean: which variable each one reads, which are read by nobody, and which belong to no
// declaration. A text is read by luaparse, as Lua 5.1, and never run.
import { parse } from "luaparse";
import type { Chunk, Expression, FunctionDeclaration, Identifier, Node, Statement } from "luaparse";

export interface LuaVariable {
  readonly name: string;
  readonly kind: "local" | "function" | "parameter" | "loop variable";
  readonly line: number;
  /** Where it is read, but for the places inside a function's own body. */
  readonly reads: Identifier[];
  /** A parameter that stands before one that is read keeps its place. */
  readonly isBeforeRead: () => boolean;
}

export interface LuaNames {
  readonly chunk: Chunk;
  readonly variables: readonly LuaVariable[];
  /** Names that nothing declares, with the place of each use. */
  readonly globals: readonly { readonly name: string; readonly line: number; readonly isWritten: boolean }[];
  /** The variable that a name means at its place. */
  readonly meaningOf: ReadonlyMap<Identifier, LuaVariable>;
}

type Scope = Map<string, LuaVariable>;

export function readLuaNames(text: string): LuaNames {
  const chunk = parse(text, {
    luaVersion: "5.1",
    locations: true,
    ranges: true,
    encodingMode: "pseudo-latin1",
  });
  const variables: LuaVariable[] = [];
  const globals: { name: string; line: number; isWritten: boolean }[] = [];
  const meaningOf = new Map<Identifier, LuaVariable>();
  const scopes: Scope[] = [new Map()];
  const inside: LuaVariable[] = [];

  const declare = (
    node: Identifier,
    kind: LuaVariable["kind"],
    isBeforeRead: () => boolean = () => false,
  ): LuaVariable => {
    const variable = { name: node.name, kind, line: lineOf(node), reads: [], isBeforeRead };
    variables.push(variable);
    scopes.at(-1)?.set(node.name, variable);
    meaningOf.set(node, variable);
    return variable;
  };
  const refer = (node: Identifier, isWritten: boolean): void => {
    const variable = scopes.findLast((scope) => scope.has(node.name))?.get(node.name);
    if (variable === undefined) globals.push({ name: node.name, line: lineOf(node), isWritten });
    else {
      meaningOf.set(node, variable);
      if (!isWritten && !inside.includes(variable)) variable.reads.push(node);
    }
  };
  const inScope = (work: () => void): void => {
    scopes.push(new Map());
    work();
    scopes.pop();
  };
  const eachIn = (body: readonly Statement[]): void => inScope(() => body.forEach(statement));
  const read = (node: Expression | null | undefined): void => {
    if (node !== null && node !== undefined) expression(node);
  };
  const assign = (node: Node): void => {
    if (node.type === "Identifier") refer(node, true);
    else expression(node as Expression);
  };

  function body(node: FunctionDeclaration, own?: LuaVariable): void {
    if (own !== undefined) inside.push(own);
    inScope(() => {
      const parameters: LuaVariable[] = [];
      for (const [at, parameter] of node.parameters.entries())
        if (parameter.type === "Identifier")
          parameters.push(
            declare(parameter, "parameter", () =>
              parameters.slice(at + 1).some((next) => next.reads.length > 0),
            ),
          );
      node.body.forEach(statement);
    });
    if (own !== undefined) inside.pop();
  }

  function statement(node: Statement): void {
    switch (node.type) {
      case "LocalStatement":
        node.init.forEach(read);
        for (const name of node.variables) declare(name, "local");
        return;
      case "AssignmentStatement":
        node.init.forEach(read);
        node.variables.forEach(assign);
        return;
      case "CallStatement":
        return read(node.expression);
      case "FunctionDeclaration": {
        const name = node.identifier;
        if (name !== null && node.isLocal) return body(node, declare(name as Identifier, "function"));
        if (name !== null) assign(name);
        return body(node);
      }
      case "IfStatement":
        for (const clause of node.clauses) {
          if (clause.type !== "ElseClause") read(clause.condition);
          eachIn(clause.body);
        }
        return;
      case "WhileStatement":
        read(node.condition);
        return eachIn(node.body);
      case "RepeatStatement":
        return inScope(() => {
          node.body.forEach(statement);
          read(node.condition);
        });
      case "DoStatement":
        return eachIn(node.body);
      case "ForNumericStatement":
        [node.start, node.end, node.step].forEach(read);
        return inScope(() => {
          declare(node.variable, "loop variable");
          node.body.forEach(statement);
        });
      case "ForGenericStatement":
        node.iterators.forEach(read);
        return inScope(() => {
          for (const name of node.variables) declare(name, "loop variable");
          node.body.forEach(statement);
        });
      case "ReturnStatement":
        return node.arguments.forEach(read);
      default:
    }
  }

  function expression(node: Expression): void {
    switch (node.type) {
      case "Identifier":
        return refer(node, false);
      case "FunctionDeclaration":
        return body(node as FunctionDeclaration);
      case "BinaryExpression":
      case "LogicalExpression":
        expression(node.left);
        return expression(node.right);
      case "UnaryExpression":
        return expression(node.argument);
      case "MemberExpression":
        return expression(node.base);
      case "IndexExpression":
        expression(node.base);
        return expression(node.index);
      case "CallExpression":
        expression(node.base);
        return node.arguments.forEach(read);
      case "TableCallExpression":
        expression(node.base);
        return expression(node.arguments);
      case "StringCallExpression":
        expression(node.base);
        return expression(node.argument);
      case "TableConstructorExpression":
        for (const field of node.fields) {
          if (field.type === "TableKey") expression(field.key);
          expression(field.value);
        }
        return;
      default:
    }
  }

  chunk.body.forEach(statement);
  return { chunk, variables, globals, meaningOf };
}

/** What is wrong with the names of a text, as "line: sentence". */
export function luaNameTrouble(text: string, known: ReadonlySet<string>): string[] {
  const { variables, globals } = readLuaNames(text);
  const unknown = globals
    .filter(({ name, isWritten }) => isWritten || !known.has(name))
    .map(({ name, line, isWritten }) => `${line}: ${name} is ${isWritten ? "written but " : ""}not declared`);
  const unread = variables
    .filter(({ name, reads, isBeforeRead }) => name !== "_" && reads.length === 0 && !isBeforeRead())
    .map(({ name, kind, line }) => `${line}: nothing reads the ${kind} ${name}`);
  return [...unknown, ...unread];
}

function lineOf(node: Node): number {
  return node.loc?.start.line ?? 0;
}
