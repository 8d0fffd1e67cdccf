/** A claim with what travels with it: documents of the same partition are put and read in the same step. */
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import { claim } from "./claim.ts";
import { putDocs, readDocs } from "./docs.ts";
import type { Step } from "./step.ts";

export function claimWithDocs(step: Step, request: ClaimRequest): ClaimAnswer {
  const { docs } = request;
  if (docs === undefined) return claim(step, request);
  const puts = putDocs(step, docs.puts);
  const answer = claim(step, request);
  return { ...answer, docs: { puts, read: docs.read === null ? null : readDocs(step, docs.read) } };
}
