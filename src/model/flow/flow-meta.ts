/**
 * What the record of a member of a flow says about it beside what stores count: how it stands in the graph, and which
 * results of others its input is made of. Travels in the job's meta (job-meta.ts); stores keep it unread.
 */
import { mintedChars, mintedPartition } from "../job/job-id.ts";
import type { Part } from "./graph.ts";

export interface FlowMeta {
  /** Of a flow, or a part of one. */
  readonly part?: Part;
  /** The edges that lead here, with the paths that they come from in place of targets; left out for none. */
  readonly parents?: readonly string[];
  /** Before any of them has arrived. */
  readonly wants?: { readonly need: number; readonly slack: number };
  readonly cancelsRest?: true;
  /** Where results of others belong in the input. */
  readonly refs?: readonly ResultRef[];
  /** Of a flow, or one inside of another: the paths of the nodes whose results are its own. */
  readonly ends?: readonly string[];
  /** It runs no handler: it makes a job of each item of a list. */
  readonly expands?: Expansion;
}

/** A result of another member, as part of an input. */
export interface ResultRef {
  /** Where in the input; empty for all of it. */
  readonly at: readonly (string | number)[];
  /** Whose result. */
  readonly of: string;
  /** Which part of it; empty for all of it. */
  readonly path: readonly (string | number)[];
  /** The results of all nodes of a part that completed, in order. */
  readonly isList?: true;
}

export interface Expansion {
  /** Options of each job, as the caller gave them. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** Their deadline, where it is an instant. */
  readonly deadlineAt?: number;
}

/** The id of the whole flow that a member's id begins with; null for an id of another form. */
export function rootOf(id: string): string | null {
  const dot = id.indexOf(".");
  return dot < 0 ? null : id.slice(0, dot);
}

/** Where a member stands. */
export interface FlowPlace {
  /** Of the whole flow. */
  readonly id: string;
  /** The path of its node. */
  readonly node: string;
}

/**
 * What the id of a job alone tells: that of a member begins with the minted id of its flow. An application that gives
 * ids of this form to jobs of its own is shown places that there are not, and nothing worse.
 */
export function placeOfId(id: string): FlowPlace | null {
  if (id.charAt(mintedChars) !== "." || mintedPartition(id.slice(0, mintedChars)) === null) return null;
  return { id: id.slice(0, mintedChars), node: id.slice(mintedChars + 1) };
}

/** From the path of a node to its id. */
export function idOfPath(root: string, path: string): string {
  return path === "" ? root : `${root}.${path}`;
}

export function pathOfId(id: string): string {
  const dot = id.indexOf(".");
  return dot < 0 ? "" : id.slice(dot + 1);
}

/** By which all members of a flow, at any depth, are found. No tag of an application has a control character. */
export function memberTag(root: string): string {
  return `\u0007${root}`;
}

export const isMemberTag = (tag: string): boolean => tag.startsWith("\u0007");

/** No queue of an application can have this name. Flows and their parts are jobs of it that nobody runs. */
export const flowQueue = "\u0007flows";

/** The member that makes the jobs of a map, beside them in their part. */
export const expanderName = "each";

const lastName = (path: string): string => path.slice(path.lastIndexOf(".") + 1);

/** Whether the path or id is that of a node that its part has numbered. */
export const isItem = (path: string): boolean => /^\d+$/.test(lastName(path));

/** The number of such a node. */
export const numberOfItem = (path: string): number => Number(lastName(path));
