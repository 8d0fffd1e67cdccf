/**
 * The job that a schedule or a subscription makes, as its document keeps it: the whole job but its id, planned once
 * when that is defined, so that neither the definition nor its schema is needed later, and any process can make it.
 * That of a schedule has its input, and one that was encrypted stays so; a subscription gets an input with each
 * publish.
 */
import { canonicalText } from "../../codec/digest.ts";
import type { PayloadCoder } from "../../codec/payload.ts";
import { readMeta, writeMeta } from "../../model/job/job-meta.ts";
import type { NewJob } from "../../store/records.ts";

export type JobTemplate = Omit<NewJob, "id" | "digest">;

/**
 * Every firing has the same digest: whoever submits the id of a tick again means the job that is there, also after the
 * schedule's input has changed.
 */
const firingDigest = "firing";

export function writeTemplate({ id: _id, digest: _digest, ...template }: NewJob): string {
  return JSON.stringify(template);
}

/** Throws for a text that is no job. */
export function readTemplate(text: string): JobTemplate {
  const template = JSON.parse(text) as JobTemplate | null;
  const { queue, name, input } = template ?? {};
  if (template === null || [queue, name, input].some((each) => typeof each !== "string"))
    throw new TypeError("The stored job cannot be read.");
  return template;
}

/** @param tick null for a run by hand. */
export function jobOfTemplate(
  template: JobTemplate,
  { id, schedule, tick }: { readonly id: string; readonly schedule: string; readonly tick: number | null },
): NewJob {
  const meta = writeMeta({ ...readMeta(template.meta), schedule: { name: schedule, tick } });
  return { ...template, id, digest: firingDigest, meta };
}

/** Encrypting one input twice gives two texts, which must not pass for two definitions. */
export function isSameTemplate(coder: PayloadCoder, one: string, other: string): boolean {
  if (one === other) return true;
  try {
    const { input, ...template } = readTemplate(one);
    const { input: otherInput, ...otherTemplate } = readTemplate(other);
    const isSame = JSON.stringify(template) === JSON.stringify(otherTemplate);
    return isSame && canonicalText(coder.decode(input)) === canonicalText(coder.decode(otherInput));
  } catch {
    return false;
  }
}
