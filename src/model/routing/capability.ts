/**
 * Capabilities: names of what a job needs of a worker ("gpu", "eu"). A job requires some (`requires`) and a worker
 * offers some (`capabilities`). Only a worker that offers all that a job requires may run it. A list is sorted and
 * without repeats, so that one set is one route (route.ts), however it was written.
 */
import { checkName } from "../name.ts";
import { invalidOption } from "../option.ts";

export function readCapabilities(given: unknown, what: string, max: number): readonly string[] {
  if (!Array.isArray(given)) {
    const kind = given === null ? "null" : typeof given;
    throw invalidOption(`${what} must be a list of names, such as ["gpu"], not ${kind}.`);
  }
  const requires = [...new Set(given.map((each) => checkName(each, what)))].sort();
  if (requires.length > max)
    throw invalidOption(`${what} has ${requires.length} names; at most ${max} are allowed.`);
  return Object.freeze(requires);
}

/** The required capabilities that are not offered. */
export function missingCapabilities(asked: readonly string[], offered: Iterable<string>): readonly string[] {
  const offers = offered instanceof Set ? (offered as ReadonlySet<string>) : new Set(offered);
  return asked.filter((cap) => !offers.has(cap));
}
