/** The branches that the table of paths (../paths.ts) makes in the library. */
import type { FastPath } from "../../../store/paths.ts";
import { redisPaths } from "../paths.ts";
import { luaConstant, wrapped } from "./lua.ts";

/** The fast paths that the library chooses, as "settle: set", each with its condition. */
const conditions: ReadonlyMap<string, string> = new Map(
  Object.entries<readonly FastPath[]>(redisPaths).flatMap(([choice, fast]) =>
    fast.flatMap(({ path, takes }): [string, string][] =>
      "inStore" in takes ? [[`${choice}: ${path}`, takes.inStore]] : [],
    ),
  ),
);

export const serverPaths: readonly string[] = [...conditions.keys()];

/** Whether the library has this path at all: a test builds one without it. */
export const hasPath = (name: string): string =>
  `HAS_${luaConstant(name.replace(": ", "-").replace(" ", "-"))}`;

function conditionOf(name: string): string {
  const condition = conditions.get(name);
  if (condition === undefined) throw new Error(`${name} is not in the table of paths`);
  return condition;
}

/** The condition under which work takes a path. */
export const takes = (name: string): string =>
  wrapped([hasPath(name), ...conditionOf(name).split(" and ")], { before: "and " });

/** The same for a predicate that reads a job: what it has read, or nothing. */
export const reads = (name: string, fields: string): string =>
  `local ${fields}\n  if ${hasPath(name)} then ${fields} = ${conditionOf(name)} end`;

export function pathsLua(chosen: readonly string[]): string {
  return serverPaths.map((name) => `local ${hasPath(name)} = ${chosen.includes(name)}\n`).join("");
}
