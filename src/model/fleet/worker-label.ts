/**
 * The label of a worker for users: `{prefix}-worker-{version}-{id}`, set by the environment of a deployment. Without a
 * version that part is absent. Without an id it is the first four digits of the worker's boot id. Without a prefix
 * there is no label, and the worker is shown by host and process.
 */

export interface LabelParts {
  readonly prefix: string | undefined;
  readonly version: string | undefined;
  readonly id: string | undefined;
  /** Hex digits, random for every worker. */
  readonly bootId: string;
}

const bootDigits = 4;

export function workerLabel({ prefix, version, id, bootId }: LabelParts): string | null {
  if (prefix === undefined) return null;
  const parts = [prefix, "worker", version, id ?? bootId.slice(0, bootDigits)];
  return parts.filter((part) => part !== undefined).join("-");
}
