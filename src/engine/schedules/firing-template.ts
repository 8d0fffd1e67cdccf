/**
 * What a firing of a schedule makes, as the schedule's document keeps it: a job, or a flow with its members. All of it
 * was planned when the schedule was defined, so a firing needs neither code nor schema. An input that was encrypted
 * stays so.
 *
 *   a job    the job without its id (submit/job-template.ts)
 *   a flow   { flow, members }: ids, flows and tags of the members are written as if the id of the flow were empty
 */
import { canonicalText } from "../../codec/digest.ts";
import { openTexts } from "../../codec/sealed-texts.ts";
import type { PayloadCoder } from "../../codec/payload.ts";
import { MillraceError } from "../../model/error.ts";
import { memberTag } from "../../model/flow/flow-meta.ts";
import { readFreed } from "../../model/flow/freed.ts";
import { invalidFlow } from "../../model/flow/graph.ts";
import { readMeta, writeMeta } from "../../model/job/job-meta.ts";
import type { NewJob } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { planFlow } from "../flows/plan-flow.ts";
import { readSubmitOptions } from "../flows/submit-options.ts";
import { checkTemplate, writeTemplate } from "../submit/job-template.ts";
import type { JobTemplate } from "../submit/job-template.ts";
import type { ScheduleDefinition } from "./schedule-definition.ts";

/** A member, with the part of its id that follows the id of the flow. */
type MemberTemplate = JobTemplate & Pick<NewJob, "id">;

export interface FiringTemplate {
  /** The job, or that of the flow. */
  readonly whole: JobTemplate;
  /** Null for a job. */
  readonly members: readonly MemberTemplate[] | null;
}

/**
 * Every firing has the same digest: whoever submits the id of a tick again means the job that is there, also after the
 * schedule's input has changed.
 */
const firingDigest = "firing";
/** A firing writes the document again, with all members in it. */
const membersMax = 1000;

/** @returns the jobs of a firing, to see where they have to lie, and what the document keeps. */
export async function planFiring(
  needs: Needs<"ids" | "planner">,
  { name, makes }: Pick<ScheduleDefinition, "name" | "makes">,
): Promise<{ readonly jobs: readonly NewJob[]; readonly text: string }> {
  if ("job" in makes) {
    const job = await needs.planner.plan(makes);
    return { jobs: [job], text: writeTemplate(job) };
  }
  const { flow, options } = makes;
  const { jobs } = await planFlow(needs, flow, { ...readSubmitOptions(flow, options), isTemplate: true });
  const [whole, ...members] = jobs as readonly [NewJob, ...NewJob[]];
  const what = `schedule ${JSON.stringify(name)}`;
  if (members.length > membersMax)
    throw invalidFlow(
      `${what}: a scheduled flow has at most ${membersMax} nodes, not ${members.length}; schedule a job that submits it.`,
    );
  if (members.some(isAtInstant))
    throw new MillraceError(
      "invalid-option",
      `${what}: a node has runAt, which would be the same instant in every flow of the schedule; give it a delay.`,
    );
  const kept = members.map(({ digest: _, ...member }) => member);
  return { jobs, text: JSON.stringify({ flow: JSON.parse(writeTemplate(whole)), members: kept }) };
}

const isAtInstant = ({ due, freed = null }: NewJob): boolean =>
  "at" in due || (freed !== null && "at" in readFreed(freed).due);

/** Throws for a text that is neither. */
export function readFiringTemplate(text: string): FiringTemplate {
  const kept = JSON.parse(text) as { flow?: JobTemplate; members?: MemberTemplate[] } | null;
  if (kept?.flow === undefined) return { whole: checkTemplate(kept as JobTemplate | null), members: null };
  return { whole: checkTemplate(kept.flow), members: (kept.members ?? []).map(checkTemplate) };
}

/** The same job with another input, as it was encoded. What was computed of the input before, such as a key, stays. */
export function withInput(text: string, input: string, what: string): string {
  const { whole, members } = readFiringTemplate(text);
  if (members !== null)
    throw new MillraceError(
      "invalid-option",
      `${what}: it makes flows, whose nodes have the inputs; define it again with another flow.`,
    );
  return JSON.stringify({ ...whole, input });
}

/** @param tick null for a run by hand. */
export function jobsOfFiring(
  { whole, members }: FiringTemplate,
  { id, schedule, tick }: { readonly id: string; readonly schedule: string; readonly tick: number | null },
): readonly NewJob[] {
  const made = <Template extends JobTemplate>(template: Template): Template & Pick<NewJob, "digest"> => ({
    ...template,
    digest: firingDigest,
    meta: writeMeta({ ...readMeta(template.meta), schedule: { name: schedule, tick } }),
  });
  const [noRoot, ownTag] = [memberTag(""), memberTag(id)];
  return [
    { ...made(whole), id },
    ...(members ?? []).map((member) => ({
      ...made(member),
      id: id + member.id,
      flow: id + (member.flow ?? ""),
      tags: (member.tags ?? []).map((tag) => (tag === noRoot ? ownTag : tag)),
    })),
  ];
}

/** Encrypting one value twice gives two texts, which must not pass for two definitions. */
export function isSameFiring(coder: PayloadCoder, one: string, other: string): boolean {
  if (one === other) return true;
  try {
    const [jobs, others] = [one, other].map((text) => {
      const { whole, members } = readFiringTemplate(text);
      return [whole, ...(members ?? [])];
    }) as [JobTemplate[], JobTemplate[]];
    const isSame = (job: JobTemplate, than: JobTemplate | undefined): boolean =>
      than !== undefined &&
      plainText(coder, job) === plainText(coder, than) &&
      canonicalText(coder.decode(job.input)) === canonicalText(coder.decode(than.input));
    return jobs.length === others.length && jobs.every((job, at) => isSame(job, others[at]));
  } catch {
    return false;
  }
}

/** All of it but the input, with its headers as they were given. */
function plainText(coder: PayloadCoder, job: JobTemplate): string {
  const { headers, ...meta } = readMeta(job.meta);
  const given = headers === undefined ? meta : { ...meta, headers: openTexts(coder, headers) };
  return JSON.stringify({ ...job, input: "", meta: writeMeta(given) });
}
