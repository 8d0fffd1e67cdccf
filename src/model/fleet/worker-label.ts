/**
 * What people call a worker: `{prefix}-worker-{version}-{id}`, as deployments set it by the environment. Without a
 * version that part is left out; without an id it is the first four digits of the worker's boot id; without a prefix
 * there is no such label, and the worker goes by its host and process.
 */

export interface LabelParts {
  readonly prefix: string | undefined;
  readonly version: string | undefined;
  readonly id: string | undefined;
  /** Hex digits, drawn anew for every worker. */
  readonly bootId: string;
}

const bootDigits = 4;

export function workerLabel({ prefix, version, id, bootId }: LabelParts): string | null {
  if (prefix === undefined) return null;
  const parts = [prefix, "worker", version, id ?? bootId.slice(0, bootDigits)];
  return parts.filter((part) => part !== undefined).join("-");
}
