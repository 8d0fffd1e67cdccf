/**
 * The input that a call gives to jobs that exist. It is encoded once, and checked by the schema of each job that this
 * process knows; if it knows none, the worker checks it. As with an enqueue, the checked value is thrown away and the
 * input is stored as it was given.
 */
import { flowMetaOf } from "../../engine/flows/members.ts";
import type { Needs } from "../../engine/services.ts";
import type { AnyJob } from "../../engine/submit/job-definition.ts";
import { checkSchema } from "../../engine/submit/standard-schema.ts";
import type { Edit } from "../../model/job/change.ts";
import type { JobRecord } from "../../store/records.ts";

export class NewInput {
  readonly #needs: Needs<"knownJobs">;
  readonly #given: { readonly input?: unknown };
  /** Left out if the call gives no input. */
  readonly edit: Edit | undefined;
  readonly #checks = new Map<string, Promise<void>>();

  constructor(needs: Needs<"coder" | "knownJobs">, given: { readonly input?: unknown }) {
    this.#needs = needs;
    this.#given = given;
    this.edit = "input" in given ? { input: needs.coder.encode(given.input, "input") } : undefined;
  }

  /** For a call over many jobs: refuses before the first of them is read, if all have one name. */
  checkFor({ name, job }: { readonly name?: string; readonly job?: AnyJob }): Promise<void> | undefined {
    const wanted = job?.name ?? name;
    if (this.edit === undefined || wanted === undefined) return undefined;
    return this.#check(wanted, job?.inputSchema ?? undefined);
  }

  check(record: JobRecord): Promise<void> | undefined {
    if (this.edit === undefined) return undefined;
    // The results of other nodes complete such an input, so its schema can be asked only when it starts.
    const flow = record.flow === null ? null : flowMetaOf(record);
    if (flow?.refs !== undefined || flow?.expands !== undefined) return undefined;
    return this.#check(record.name);
  }

  #check(name: string, schema = this.#needs.knownJobs.inputOf(name)): Promise<void> {
    let check = this.#checks.get(name);
    if (check === undefined) this.#checks.set(name, (check = this.#validate(name, schema)));
    return check;
  }

  async #validate(name: string, schema: AnyJob["inputSchema"]): Promise<void> {
    if (schema === null) return;
    const what = `The input of ${JSON.stringify(name)}`;
    await checkSchema(schema, this.#given.input, { code: "invalid-input", what });
  }
}
