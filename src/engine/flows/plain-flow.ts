/**
 * A flow in its plain form: nodes by their names and edges between them, for graphs that are data. Each node goes
 * through the builder, so both forms mean the same. Its results have types if its edges are literals.
 *
 *   flow("order", {
 *     nodes: { pay: pay.with({ cents: 4200 }), ship: ship.with({ to: "Ada" }), sorry: mail.with({ text: "sorry" }) },
 *     edges: [{ from: "pay", to: "ship" }, { from: "pay", to: "sorry", on: "failure" }],
 *   });
 */
import { invalidFlow } from "../../model/flow/graph.ts";
import type { Condition } from "../../model/flow/graph.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import type { AnySubmission, Submission } from "../submit/job-definition.ts";
import type { AfterOptions, NodeOptions } from "./flow-options.ts";

/** What `job.with(input, options)` returns, and how the node joins those that it comes after. */
export type PlainNode = AnySubmission & Pick<NodeOptions<unknown>, "join" | "cancelRest">;

export interface PlainEdge {
  readonly from: string;
  readonly to: string;
  /** The end of `from` that `to` waits for; "success" by default. */
  readonly on?: Condition;
}

export type PlainNodes = Readonly<Record<string, PlainNode>>;

type ResultOfNode<Node> = Node extends Submission<infer _In, infer Result> ? Result : never;
/** Nodes whose success another one waits for. */
type Passed<Edge> = Edge extends { readonly on: "failure" }
  ? never
  : Edge extends { readonly from: infer From }
    ? From
    : never;
/** Nodes that run after a failure only. */
type Rescuing<Edge> = Edge extends { readonly on: "failure"; readonly to: infer To } ? To : never;

/** The results of the nodes whose success nothing waits for; of a node for the case of a failure, if it has run. */
export type PlainResults<
  Nodes extends PlainNodes,
  Edges extends readonly PlainEdge[],
> = string extends Edges[number]["from"]
  ? Partial<{ readonly [Name in keyof Nodes]: ResultOfNode<Nodes[Name]> }>
  : {
      readonly [Name in Exclude<keyof Nodes, Passed<Edges[number]> | Rescuing<Edges[number]>>]: ResultOfNode<
        Nodes[Name]
      >;
    } & {
      readonly [Name in Exclude<keyof Nodes & Rescuing<Edges[number]>, Passed<Edges[number]>>]?: ResultOfNode<
        Nodes[Name]
      >;
    };

/** A node as the builder takes it. */
export interface PlacedNode {
  readonly name: string;
  readonly submission: AnySubmission;
  readonly options: object;
}

const keyOf = { success: "after", failure: "afterFailureOf", always: "always" } as const;

/** Bad nodes and edges are refused here; what no graph may have, with the plan. */
export function readPlainNodes(given: unknown, edges: unknown, what: string): readonly PlacedNode[] {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw invalidOption(`${what}: nodes are an object of job.with(input, options) by their names.`);
  if (!Array.isArray(edges)) throw invalidOption(`${what}: edges must be a list of { from, to, on }.`);
  const nodes = given as PlainNodes;
  const places = new Map<string, Record<"after" | "afterFailureOf" | "always", string[]>>();
  for (const name of Object.keys(nodes)) places.set(name, { after: [], afterFailureOf: [], always: [] });
  for (const edge of edges as readonly unknown[]) {
    const read = checkOptions(edge, `${what}: an edge`, ["from", "to", "on"]) as Partial<PlainEdge>;
    const { from = "", to = "", on = "success" } = read;
    const key = Object.hasOwn(keyOf, on) ? keyOf[on] : undefined;
    if (key === undefined) throw invalidOption(`${what}: on of an edge must be success, failure or always.`);
    for (const end of [from, to])
      if (!places.has(end))
        throw invalidFlow(
          `${what}: an edge from ${JSON.stringify(from)} to ${JSON.stringify(to)} names no node.`,
        );
    places.get(to)?.[key].push(from);
  }
  return Object.entries(nodes).map(([name, node]) => {
    if (typeof node !== "object" || node === null)
      throw invalidOption(`${what}: ${JSON.stringify(name)} must be what job.with(input, options) returns.`);
    const { job, input, options = {}, join, cancelRest } = node;
    const after = Object.entries(places.get(name) ?? {}).filter(([, names]) => names.length > 0);
    const place: AfterOptions & { cancelRest?: boolean } = {
      ...Object.fromEntries(after),
      ...(join === undefined ? {} : { join }),
      ...(cancelRest === undefined ? {} : { cancelRest }),
    };
    return { name, submission: { job, input, options: undefined }, options: { ...options, ...place } };
  });
}
