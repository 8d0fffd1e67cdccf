/**
 * Definitions of schedules reach the store: a new one is written, one that says what the store has changes nothing (so
 * an operator's edits stay), and one that says something else takes their place.
 *
 * Always true: one name has one definition among those that the workers of a process declare. A definition at run time
 * (`mill.schedule`) takes the place of any other.
 */
import { MillraceError } from "../../model/error.ts";
import { isSameSettings, readScheduleSettings } from "../../model/schedule/schedule-settings.ts";
import type { ScheduleSettings } from "../../model/schedule/schedule-settings.ts";
import { afterDefinition, newSchedule } from "../../model/schedule/schedule-state.ts";
import type { Doc, NewJob } from "../../store/records.ts";
import { asOneCall } from "../calls/one-call.ts";
import type { Needs } from "../services.ts";
import { isSameFiring, planFiring } from "./firing-template.ts";
import type { ScheduleDefinition } from "./schedule-definition.ts";
import {
  contended,
  docIdFor,
  findDocs,
  foundSchedule,
  readable,
  scheduleKind,
  schedulePut,
  serverTime,
} from "./schedule-docs.ts";
import type { FoundSchedule } from "./schedule-docs.ts";

type DefinedSchedulesNeeds = Needs<
  "store" | "platform" | "giveUpMs" | "coder" | "log" | "ids" | "limits" | "planner"
>;

const triesMax = 100;
const atOnceMax = 100;

interface Defined {
  readonly name: string;
  readonly jobs: readonly NewJob[];
  readonly settings: ScheduleSettings;
}

export class DefinedSchedules {
  readonly #needs: DefinedSchedulesNeeds;
  /** Those that workers have declared. */
  readonly #declared = new Map<string, { readonly settings: ScheduleSettings; readonly at: string }>();

  constructor(needs: DefinedSchedulesNeeds) {
    this.#needs = needs;
  }

  /** Of a schedule that was deleted. */
  delete(name: string): void {
    this.#declared.delete(name);
  }

  /** All of a worker. One that an older or newer process wrote and this one cannot read does not stop the worker. */
  async defineAll(definitions: readonly ScheduleDefinition[]): Promise<void> {
    for (let from = 0; from < definitions.length; from += atOnceMax)
      await Promise.all(
        definitions.slice(from, from + atOnceMax).map(async (definition) => {
          try {
            await this.define(definition, true);
          } catch (error) {
            if (!(error instanceof MillraceError) || error.code !== "schedule-unreadable") throw error;
            this.#needs.log.error("a schedule is left as it is in the store", { error });
          }
        }),
      );
  }

  /** @param isDeclared with a worker: another worker of the process may not declare another one of that name. */
  async define({ name, rule, makes, at }: ScheduleDefinition, isDeclared = false): Promise<FoundSchedule> {
    const what = `schedule ${JSON.stringify(name)}`;
    const { jobs, text } = await planFiring(this.#needs, { name, makes });
    const settings = readScheduleSettings(rule, text, what);
    if (isDeclared) this.#enter(name, settings, at);
    await this.#needs.limits.whenMade(jobs);
    return asOneCall(this.#needs, { what }, (needs) => this.#write(needs, { name, jobs, settings }));
  }

  async #write(needs: DefinedSchedulesNeeds, { name, jobs, settings }: Defined): Promise<FoundSchedule> {
    const id = docIdFor(needs, name, jobs);
    for (let tries = 0; tries < triesMax; tries++) {
      const docs = await findDocs(needs, scheduleKind, name);
      const here = docs.find((doc) => doc.id === id);
      const elsewhere = docs.find((doc) => doc.id !== id);
      const now = await serverTime(needs);
      const known = here ?? elsewhere;
      const found = known === undefined ? null : readable(foundSchedule(known));
      const state =
        found === null
          ? newSchedule(settings, now)
          : afterDefinition(found.state, this.#asStored(settings, found.state.defined), now);
      if (elsewhere !== undefined && !(await rest(needs, elsewhere, here !== undefined))) continue;
      if (here !== undefined && state === null) return foundSchedule(here);
      const next = state ?? found?.state;
      if (next === undefined) continue;
      const put = schedulePut({ id, version: here?.version ?? 0 }, next, now);
      const [answer] = await needs.store.putDocs([put]);
      if (answer?.kind !== "ok") continue;
      if (elsewhere !== undefined) continue;
      const dueAt = put.due && "at" in put.due ? put.due.at : null;
      return foundSchedule({
        ...put,
        body: put.body as string,
        version: answer.version,
        dueAt,
        expiresAt: null,
      });
    }
    throw contended(name);
  }

  #asStored(settings: ScheduleSettings, stored: ScheduleSettings): ScheduleSettings {
    const isSame = isSameFiring(this.#needs.coder, settings.job, stored.job);
    return isSame ? { ...settings, job: stored.job } : settings;
  }

  #enter(name: string, settings: ScheduleSettings, at: string): void {
    const known = this.#declared.get(name);
    if (known !== undefined && !isSameSettings(this.#asStored(settings, known.settings), known.settings))
      throw new MillraceError(
        "schedule-conflict",
        `The schedule ${JSON.stringify(name)} is declared by workers of this process in two ways: ${known.at}, and ${at}. Declare it once, or change it with schedules.edit.`,
      );
    this.#declared.set(name, known ?? { settings, at });
  }
}

/**
 * The schedule moves to another partition, because its jobs must lie there from now on, in three steps: the document
 * that it leaves is due no more, the new one is written, the old one goes. Two that are due at once would both fire,
 * under different ids. @returns true once the new one may be written.
 */
async function rest(
  needs: DefinedSchedulesNeeds,
  { kind, id, body, version, dueAt }: Doc,
  isMoved: boolean,
): Promise<boolean> {
  if (dueAt === null && !isMoved) return true;
  await needs.store.putDocs([{ kind, id, body: isMoved ? null : body, guard: { version } }]);
  return false;
}
