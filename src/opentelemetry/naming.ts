/**
 * The words of the semantic conventions for messaging, version 1.45.0, and how Millrace maps to them: a job is a
 * message, its queue the destination, an enqueue a send, an attempt the processing of a message. What only Millrace has
 * lies under `messaging.millrace`.
 */
import { parseMeta } from "../model/job/job-meta.ts";
import type { Attributes } from "./api.ts";

export const attributeNames = {
  system: "messaging.system.name",
  /** Deprecated by 1.45.0, but what most backends look for. */
  systemBefore: "messaging.system",
  operation: "messaging.operation.name",
  operationType: "messaging.operation.type",
  destination: "messaging.destination.name",
  messageId: "messaging.message.id",
  batchSize: "messaging.batch.message_count",
  clientId: "messaging.client.id",
  errorType: "error.type",
  job: "messaging.millrace.job.name",
  attempt: "messaging.millrace.job.attempt",
  outcome: "messaging.millrace.job.outcome",
  reason: "messaging.millrace.job.reason",
  how: "messaging.millrace.enqueue.how",
  schedule: "messaging.millrace.schedule.name",
  retryDelay: "messaging.millrace.retry.delay_ms",
  step: "messaging.millrace.step.name",
  stepKind: "messaging.millrace.step.kind",
  stepAttempt: "messaging.millrace.step.attempt",
  signal: "messaging.millrace.signal.name",
} as const;

/** The system's own name of the operation, and its type in the conventions. */
const operations = {
  enqueue: "send",
  create: "create",
  process: "process",
} as const;

export type Operation = keyof typeof operations;

export interface Title {
  readonly queue: string;
  readonly name: string;
}

const systemName = "millrace";

/** What spans of an operation on one job, or on jobs of one queue, have in common; absent if they differ. */
export function spanAttributes(operation: Operation, title: Partial<Title>): Attributes {
  return {
    [attributeNames.system]: systemName,
    [attributeNames.systemBefore]: systemName,
    [attributeNames.operation]: operation,
    [attributeNames.operationType]: operations[operation],
    ...(title.queue === undefined ? {} : { [attributeNames.destination]: title.queue }),
    ...(title.name === undefined ? {} : { [attributeNames.job]: title.name }),
  };
}

/** The same for metrics, where each more is another series. */
export function metricAttributes(
  operation: Operation,
  title: Partial<Title>,
  errorType: string | null,
): Attributes {
  return {
    ...spanAttributes(operation, title),
    ...(errorType === null ? {} : { [attributeNames.errorType]: errorType }),
  };
}

/** The schedule that made a job, if one did. Most jobs have none, which the text shows without parsing. */
export function scheduleAttributes(meta: string | null): Attributes {
  if (meta === null || !meta.includes('"schedule":')) return {};
  const made = parseMeta(meta)?.schedule;
  return made === undefined ? {} : { [attributeNames.schedule]: made.name };
}

/** A class of errors, of which there are few. */
export function errorTypeOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return "_OTHER";
  const { code, name, reason } = error as Readonly<Record<"code" | "name" | "reason", unknown>>;
  if (name === "MillraceError" && typeof code === "string") return code;
  if (name === "AttemptAborted" && typeof reason === "string") return reason;
  return typeof name === "string" && name !== "" ? name : "_OTHER";
}
