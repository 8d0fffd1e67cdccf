/**
 * What a definition says of jobs with a key: fair turns, FIFO, a cap per key, and a rate per key that lets one job pass
 * and keeps the next until tomorrow. Limits are made here when they are asked for, so that no other work needs them.
 */
import type { JobOptions } from "../../src/engine/submit/job-definition.ts";
import { limit } from "../../src/engine/limits/limit-definition.ts";
import type { LimitOptions } from "../../src/engine/limits/limit-definition.ts";
import type { BenchInput } from "../measure/input.ts";
import { groupKeyOf, perKeyMax } from "../measure/job-kind.ts";
import type { JobKind } from "../measure/job-kind.ts";

type KeyedOptions = Pick<JobOptions<BenchInput>, "limits" | "group">;

/** Of one limit, by the key of its job. */
function limitedByKey(
  name: string,
  perKey: NonNullable<LimitOptions["perKey"]>,
  key: (input: BenchInput) => string,
): KeyedOptions {
  return { limits: [limit(name, { perKey }).use({ key })] };
}

export function keyedOptionsOf(kind: JobKind): KeyedOptions {
  const key = (input: BenchInput): string => groupKeyOf(kind, input);
  if (kind === "grouped") return { group: key };
  if (kind === "fifo") return { group: { key, concurrency: 1 } };
  return kind === "keyed" ? limitedByKey("keyed", { concurrency: perKeyMax }, key) : {};
}

export function closedOptions(): KeyedOptions {
  return limitedByKey("closed", { rate: { max: 1, per: "1d" } }, ({ orderId }) => `tenant-${orderId}`);
}
