/** The policy that was frozen with a job, as its submit carried it. */
import type { JobPolicy } from "../../src/model/job/job-policy.ts";
import type { NewJob } from "../../src/store/records.ts";

export function policyOf({ policy }: Pick<NewJob, "policy">): JobPolicy {
  return policy === null ? {} : (JSON.parse(policy) as JobPolicy);
}
