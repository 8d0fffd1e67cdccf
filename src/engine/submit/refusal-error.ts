/** The store may refuse a unit; whoever submitted it gets an error that says why. */
import { MillraceError } from "../../model/error.ts";
import { quoteNames } from "../../model/name.ts";
import type { SubmitAnswer } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";

/** A refused unit as the caller's error. */
export function refusalError(
  answer: Extract<SubmitAnswer, { kind: "refused" }>,
  jobs: readonly Pick<NewJob, "id" | "queue">[],
): MillraceError {
  switch (answer.reason) {
    case "id-differs":
      return new MillraceError(
        "id-conflict",
        `A job with the id ${JSON.stringify(answer.id)} exists with another name or input.`,
      );
    case "doc-changed":
      return new MillraceError(
        "version-conflict",
        `The document ${JSON.stringify(answer.id)} has another version.`,
      );
    case "above-ceiling":
    case "uncountable":
      return new MillraceError(
        "counter-refused",
        `Nothing can be added to the counter ${JSON.stringify(answer.id)}: ${answer.reason === "above-ceiling" ? "the sum would be above its ceiling" : "it is no number, or the sum would be too large"}.`,
      );
    case "intake-closed":
      return new MillraceError(
        "intake-closed",
        `${queueTitle(answer.id, jobs)} takes no new jobs: somebody closed its intake. Open it with mill.queues.openIntake().`,
      );
    case "flow-closed":
      return new MillraceError(
        "flow-closed",
        `Nothing can be added at ${JSON.stringify(answer.id)}: it has ended, has started, or is being cancelled.`,
      );
    case "key-held":
      return new MillraceError(
        "key-held",
        `The unique key of the node ${JSON.stringify(answer.id)} is held by another job, so nothing of the flow was made.`,
      );
  }
}

/** A job may have got another id where it was placed; then one of the unit's queues is meant. */
function queueTitle(id: string, jobs: readonly Pick<NewJob, "id" | "queue">[]): string {
  const refused = jobs.find((job) => job.id === id);
  const queues = [...new Set((refused === undefined ? jobs : [refused]).map(({ queue }) => queue))];
  return `${queues.length === 1 ? "The queue" : "One of the queues"} ${quoteNames(queues)}`;
}
