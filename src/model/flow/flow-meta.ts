/**
 * The part of a member's meta (job-meta.ts) about its flow: its place in the graph, and which results of other members
 * its input needs. Stores keep it unread.
 */
import { deriveId, mintedChars, mintedPartition } from "../job/job-id.ts";
import type { Placement } from "../routing/placement.ts";
import type { Part } from "./graph.ts";

export interface FlowMeta {
  /** For a flow or a part. */
  readonly part?: Part;
  /** The edges that lead here, with the paths of their sources instead of targets; absent for none. */
  readonly parents?: readonly string[];
  /** The counts before any of them has arrived. */
  readonly wants?: { readonly need: number; readonly slack: number };
  readonly cancelsRest?: true;
  /** Where results of others belong in the input. */
  readonly refs?: readonly ResultRef[];
  /** For a flow, also inside another: the paths of the nodes whose results are its result. */
  readonly ends?: readonly string[];
  /** In place of `ends`, for a flow that says what it returns: the paths of the nodes by the names of their results. */
  readonly returned?: Readonly<Record<string, string>>;
  /** It runs no handler, but makes a job of each item of a list. */
  readonly expands?: Expansion;
  /** For a flow that a durable run has invoked: its end is appended to the journal of the run. */
  readonly invokedBy?: Invoker;
  /** For a flow: the job that is made when it fails, as text (engine/submit/job-template.ts). */
  readonly onFailed?: string;
  /** For a flow that is submitted once by a key: the key, and a digest of its nodes and inputs. */
  readonly key?: string;
  readonly content?: string;
}

/** A call of a durable run. */
export interface Invoker {
  /** The id of the run's job. */
  readonly run: string;
  readonly round: number;
  readonly call: string;
  /** How often the call was made before, and given up with its run; left out for the first one. */
  readonly life?: number;
  /** It has invoked a job, which is the only node of the flow: its end is that of the job. */
  readonly isJob?: true;
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
  /** Their deadline, if it is an instant. */
  readonly deadlineAt?: number;
}

/** The id of the flow that is submitted with this key, the same in every process. */
export function idOfKey(placement: Placement | null, key: string): string {
  return deriveId({ of: `flow\n${key}`, at: 0, partition: placement?.ofName(key) ?? 0 });
}

/** The id of the whole flow that a member's id begins with; null for an id of another form. */
export function rootOf(id: string): string | null {
  const dot = id.indexOf(".");
  return dot < 0 ? null : id.slice(0, dot);
}

/** The place of a member in its flow. */
export interface FlowPlace {
  /** Of the whole flow. */
  readonly id: string;
  /** The path of its node. */
  readonly node: string;
}

/**
 * The place as the id alone has it: the id of a member begins with the minted id of its flow. If an application gives
 * such ids to its own jobs, they are shown with a place that does not exist, and nothing worse.
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

/** The tag by which all members of a flow, at any depth, are found. Tags of applications have no control characters. */
export function memberTag(root: string): string {
  return `\u0007${root}`;
}

export const isMemberTag = (tag: string): boolean => tag.startsWith("\u0007");

/**
 * The hidden queue of flows and parts, whose jobs no worker runs. Queues of applications have no control characters.
 */
export const flowQueue = "\u0007flows";

/** The member that makes the jobs of a map, in the same part. */
export const expanderName = "each";

const lastName = (path: string): string => path.slice(path.lastIndexOf(".") + 1);

/** Whether the path or id is that of a node that its part has numbered. */
export const isItem = (path: string): boolean => /^\d+$/.test(lastName(path));

/** The number of such a node. */
export const numberOfItem = (path: string): number => Number(lastName(path));
