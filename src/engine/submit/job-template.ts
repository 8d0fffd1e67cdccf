/**
 * The job that a schedule or a subscription makes, as its document keeps it: the whole job but its id, planned once
 * when that is defined, so that neither the definition nor its schema is needed later, and any process can make it.
 * That of a schedule has its input (schedules/firing-template.ts); a subscription gets an input with each publish.
 */
import type { NewJob } from "../../store/records.ts";

export type JobTemplate = Omit<NewJob, "id" | "digest">;

export function writeTemplate({ id: _id, digest: _digest, ...template }: NewJob): string {
  return JSON.stringify(template);
}

/** Throws for a text that is no job. */
export function readTemplate(text: string): JobTemplate {
  return checkTemplate(JSON.parse(text) as JobTemplate | null);
}

export function checkTemplate<Template extends JobTemplate>(template: Template | null | undefined): Template {
  const { queue, name, input } = template ?? {};
  if (
    template === null ||
    template === undefined ||
    [queue, name, input].some((each) => typeof each !== "string")
  )
    throw new TypeError("The stored job cannot be read.");
  return template;
}
