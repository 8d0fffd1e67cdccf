/**
 * A node that a handler in a sandbox adds to its flow, as the effect `flow.add` carries it: its place and the nodes
 * before it. The name, input and options of its job are sent as with `enqueue`. A child may be written in any language,
 * so the worker checks every field. Whether the graph is valid is checked when it is planned.
 */
import type { AnyJob } from "../../engine/submit/job-definition.ts";
import type { BuiltNode, Returned } from "../../engine/flows/flow.ts";
import { checkNodeName } from "../../model/flow/graph.ts";
import type { Condition, Part } from "../../model/flow/graph.ts";
import type { ResultRef } from "../../model/flow/flow-meta.ts";
import { checkBoolean, checkWhole, invalidOption } from "../../model/option.ts";

/** The fields of a node; all but its path are optional. */
export interface SentNode {
  /** Its name, after the names of the parts around it, separated by dots. */
  readonly path: string;
  readonly within?: string;
  readonly part?: Part;
  readonly after?: BuiltNode["after"];
  readonly before?: readonly string[];
  readonly join?: number;
  readonly cancelsRest?: boolean;
  readonly refs?: readonly ResultRef[];
  readonly expands?: BuiltNode["expands"];
  /** Of a flow inside the flow: the paths of the nodes whose results are its result, by their names. */
  readonly returned?: Returned;
}

export function sentNode(node: BuiltNode): SentNode {
  const { path, within, part, after, before, join, cancelsRest, refs, expands, returned } = node;
  return {
    path,
    ...(within === "" ? {} : { within }),
    ...(part === null ? {} : { part }),
    ...(after.length === 0 ? {} : { after }),
    ...(before === undefined ? {} : { before }),
    ...(join === null ? {} : { join }),
    ...(cancelsRest ? { cancelsRest } : {}),
    ...(refs.length === 0 ? {} : { refs }),
    ...(expands === undefined ? {} : { expands }),
    ...(returned === undefined ? {} : { returned }),
  };
}

const conditions: readonly Condition[] = ["success", "failure", "always"];
const what = "flow.add";

/** @param submission null for a part. */
export function readSentNode(
  sent: unknown,
  submission: { readonly job: AnyJob; readonly input: unknown; readonly options: object | undefined } | null,
): BuiltNode {
  const { path, within = "", part = null, after = [], before = [], join = null, ...rest } = asNode(sent);
  const { cancelsRest = false, refs = [], expands, returned } = rest;
  if ((part === null) !== (submission !== null))
    throw invalidOption(`${what}: a node has the name of a job, or is a part.`);
  return {
    path: checkPath(path),
    within: within === "" ? "" : checkPath(within),
    part: part === null ? null : checkPart(part),
    after: listOf(after, "after").map(({ path: from, on }) => {
      if (!conditions.includes(on))
        throw invalidOption(`${what}: on must be one of ${conditions.join(", ")}.`);
      return { path: checkPath(from), on };
    }),
    ...(before.length === 0 ? {} : { before: listOf(before, "before").map(checkPath) }),
    join: join === null ? null : checkWhole(join, `${what}: join`, 1, 100_000),
    cancelsRest: checkBoolean(cancelsRest, `${what}: cancelsRest`),
    refs: listOf(refs, "refs").map(({ at, of, path: picked, isList }) => ({
      ...{
        at: listOf(at, "at").map(checkKey),
        of: checkPath(of),
        path: listOf(picked, "path").map(checkKey),
      },
      ...(isList === true ? { isList } : {}),
    })),
    ...(expands === undefined ? {} : { expands }),
    ...(returned === undefined ? {} : { returned: checkReturned(returned) }),
    submission,
  };
}

function asNode(sent: unknown): SentNode {
  if (typeof sent !== "object" || sent === null) throw invalidOption(`${what}: node must be an object.`);
  return sent as SentNode;
}

/** Which nodes they are is checked when the flow is planned. */
export function checkReturned(returned: Returned): Returned {
  if (typeof returned !== "object" || returned === null)
    throw invalidOption(`${what}: returned must be paths by names.`);
  return Object.fromEntries(Object.entries(returned).map(([name, path]) => [name, checkPath(path)]));
}

function checkPath(path: unknown): string {
  if (typeof path !== "string") throw invalidOption(`${what}: a path of a node must be a text.`);
  for (const name of path.split(".")) checkNodeName(name, `${what}: name`);
  return path;
}

function checkPart(part: Part): Part {
  switch (part.kind) {
    case "flow":
      return { kind: "flow", failureMode: part.failureMode };
    case "group": {
      const { concurrency } = part;
      const cap =
        concurrency === undefined
          ? {}
          : { concurrency: checkWhole(concurrency, `${what}: concurrency`, 1, 1_000_000) };
      return {
        kind: "group",
        tolerate: checkWhole(part.tolerate, `${what}: tolerate`, 0, 1_000_000),
        ...cap,
      };
    }
    case "race":
      return {
        kind: "race",
        first: checkWhole(part.first, `${what}: first`, 1, 100_000),
        cancelsRest: checkBoolean(part.cancelsRest, `${what}: cancelsRest`),
      };
    default:
      throw invalidOption(`${what}: there is no such part.`);
  }
}

function listOf<Item>(given: readonly Item[], field: string): readonly Item[] {
  if (!Array.isArray(given)) throw invalidOption(`${what}: ${field} must be a list.`);
  return given.map((item: Item) => {
    if (item === null || item === undefined) throw invalidOption(`${what}: ${field} has an empty place.`);
    return item;
  });
}

function checkKey(key: unknown): string | number {
  if (typeof key === "string" || typeof key === "number") return key;
  throw invalidOption(`${what}: a step of a reference is a text or a number.`);
}
