/**
 * The table of paths. An operation of a store has one general path, which applies the rules to one job after the other,
 * and beside it at most the fast paths named here. Each store lists its own in `stores/STORE/paths.ts`: per choice the
 * fast paths in the order in which they are asked, each with the predicate that chooses it. Work that no fast path
 * takes goes the general path. A store chooses by `choosePath`, or in its server by branches that are made from this
 * table. So it has no path that is not listed.
 *
 * Every fast path leaves the rows that the general path leaves; a property test of the store compares them.
 * test/architecture/paths.test.ts counts the entries of all stores.
 */

/**
 * The fast paths that a store may have:
 *
 *  set            plain work, written as a set
 *  flow members   members of flows, written as a set
 *  lanes          jobs that wait in lanes, claimed as a set
 *  one job        a single plain job of a call that has nothing else
 */
export type FastPathName = "set" | "flow members" | "lanes" | "one job";

/**
 * Where a path is chosen: an operation; `lease`, the part of a claim that writes each job it has picked; or `arrive`,
 * the effect of an end on each job that waits for it.
 */
export type Choice =
  | "submit"
  | "claim"
  | "lease"
  | "settle"
  | "record"
  | "change"
  | "putDocs"
  | "promote"
  | "arrive";

/** A predicate in TypeScript. Its arguments are the work: a job, a unit or an offer, as the store chooses. */
type Predicate<Work extends readonly unknown[]> = (...work: Work) => boolean;

/** A predicate that the server evaluates: an expression in its language, of which the branch is made. */
export interface ServerPredicate {
  readonly inStore: string;
}

export interface FastPath {
  readonly path: FastPathName;
  readonly takes: Predicate<never> | ServerPredicate;
}

/** All paths of one store. A choice that is not listed has the general path alone. */
export type StorePaths = { readonly [At in Choice]?: readonly FastPath[] };

interface Chosen<Work extends readonly unknown[]> extends FastPath {
  readonly takes: Predicate<Work>;
}

/** The path of this work: the first fast path that takes it, else the general one. */
export function choosePath<Work extends readonly unknown[], Path extends Chosen<Work>>(
  paths: readonly Path[],
  ...work: Work
): Path["path"] | "general" {
  for (const { path, takes } of paths) if (takes(...work)) return path;
  return "general";
}
