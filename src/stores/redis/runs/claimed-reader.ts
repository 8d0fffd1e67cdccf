/**
 * Jobs as a claim returns them, one after the other. Most are like the one before: plain jobs that were made in one
 * call and members of a flow that were made alike have the same between their ids and their inputs, jobs with lanes
 * have it but for lane and gates, and all have the same state. So what such a job says is read once, and of the next
 * ones only what is their own.
 */
import type { LeasedJob } from "../../../store/records.ts";
import { keyUsesOf } from "../../../store/rules/gates/lane-change.ts";
import { flags as flagOf, specFields } from "../packing/packed-fields.ts";
import { leasedJobOf } from "../packing/packed-job.ts";
import type { JobTexts } from "../packing/packed-job.ts";
import { fieldEnd, readerOf, seqOf, unpackText } from "../packing/value-text.ts";

/** A job that was read, and what others that are like it have in their texts. */
interface Like {
  readonly job: LeasedJob;
  readonly state: string;
  /** Before the id. */
  readonly flags: string;
  /** After the id, up to the lane or to the input. */
  readonly shared: string;
  /** With a lane: between that and its gates, and from there to the input. */
  readonly step: string;
  readonly behind: string;
}

/** Of no job. */
const none: Like = {
  ...{ job: {} as LeasedJob, state: "" },
  ...{ flags: fieldEnd, shared: fieldEnd, step: "", behind: "" },
};

export function claimedReader(): (texts: JobTexts) => LeasedJob {
  let last = none;
  return (texts) => {
    const like = readLike(last, texts);
    if (like !== null) return like;
    const { spec, state } = texts;
    const job = spec.startsWith(fieldEnd) ? leasedJobOf(texts) : claimedJobOf(texts);
    last = { job, state, ...aroundOwn(spec) };
    return job;
  };
}

/** A job that is like the last one; null for another. */
function readLike(last: Like, { handle, spec, state }: JobTexts): LeasedJob | null {
  const { flags, shared, step, behind, job } = last;
  const idEnd = spec.indexOf(fieldEnd, flags.length);
  if (state !== last.state || !spec.startsWith(flags) || !spec.startsWith(shared, idEnd)) return null;
  const id = unpackText(spec.slice(flags.length, idEnd));
  const at = idEnd + shared.length;
  if (step === "") return { ...job, id, seq: seqOf(handle), input: unpackText(spec.slice(at)) };
  const laneEnd = spec.indexOf(fieldEnd, at);
  const gatesAt = laneEnd + step.length;
  const gatesEnd = spec.indexOf(fieldEnd, gatesAt);
  if (!spec.startsWith(step, laneEnd) || !spec.startsWith(behind, gatesEnd)) return null;
  const own = { id, seq: seqOf(handle), input: unpackText(spec.slice(gatesEnd + behind.length)) };
  if (job.keyGates === undefined) return { ...job, ...own };
  return { ...job, ...own, keyGates: keyGatesOf(spec.slice(gatesAt, gatesEnd)) };
}

/** Its key, step and gates stand side by side. */
const laneAt = specFields.indexOf("laneKey");
const gatesAt = specFields.indexOf("laneGates");

/** Of a spec what stands around what is its own: its id, its lane with its gates, and its input. */
function aroundOwn(spec: string): Pick<Like, "flags" | "shared" | "step" | "behind"> {
  const idAt = spec.indexOf(fieldEnd) + 1;
  const flags = spec.slice(0, idAt);
  const idEnd = spec.indexOf(fieldEnd, idAt);
  const input = spec.lastIndexOf(fieldEnd) + 1;
  if (!flags.includes(flagOf.lane)) return { flags, shared: spec.slice(idEnd, input), step: "", behind: "" };
  const parts = spec.split(fieldEnd);
  const startOf = (place: number): number => parts.slice(0, place).join(fieldEnd).length + fieldEnd.length;
  const [lane, gates] = [startOf(laneAt), startOf(gatesAt)];
  return {
    flags,
    shared: spec.slice(idEnd, lane),
    step: spec.slice(startOf(laneAt + 1) - fieldEnd.length, gates),
    behind: spec.slice(startOf(gatesAt + 1) - fieldEnd.length, input),
  };
}

const readGates = readerOf("laneGates") as (text: string) => string[] | null;

const keyGatesOf = (text: string): string[] =>
  keyUsesOf({ laneGates: readGates(text) }).map(({ key }) => key);

/** Any job, with the gates of its keys. A short spec has none. */
function claimedJobOf(texts: JobTexts): LeasedJob {
  const job = leasedJobOf(texts);
  const keyGates = keyGatesOf(texts.spec.split(fieldEnd)[gatesAt] as string);
  return keyGates.length === 0 ? job : { ...job, keyGates };
}
