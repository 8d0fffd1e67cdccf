/** The duties of this process, what the duties of all processes have done, and what needs an operator. */
import { shownTuning } from "../../engine/duties/duty-tuning.ts";
import type { DutyTuning } from "../../engine/duties/duty-tuning.ts";
import type { DutyPass } from "../../engine/duties/duty.ts";
import type { Supervisor } from "../../engine/duties/supervisor.ts";
import type { Needs } from "../../engine/services.ts";
import { checkName } from "../../model/name.ts";
import { invalidOption } from "../../model/option.ts";
import { readDutyViews } from "./duty-views.ts";
import type { DutyView } from "./duty-views.ts";
import { readQuarantinedItems, readUnreadableItems } from "./quarantined.ts";
import type { QuarantinedDutyItem, UnreadableItem } from "./quarantined.ts";

export interface DutiesSetting {
  readonly tuning: DutyTuning;
  readonly supervisor: Supervisor;
  /** Throws if this process may not do them. */
  readonly mayStart: () => void;
}

export class Duties {
  readonly #needs: Needs<"store" | "log">;
  readonly #setting: DutiesSetting;
  #isRunning = false;

  constructor(needs: Needs<"store" | "log">, setting: DutiesSetting) {
    this.#needs = needs;
    this.#setting = setting;
  }

  /**
   * Starts the duties in this process, as `work` does by itself: for a process that has no handlers.
   *
   * @example const mill = await Millrace.open(url);
   *   mill.duties.start();
   */
  start(): void {
    const { mayStart, supervisor, tuning } = this.#setting;
    mayStart();
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#needs.log.info("the duties start", shownTuning(tuning));
    supervisor.start();
  }

  /** Runs passes of one duty until it has nothing left to do. @returns the sum of the passes. */
  async run(name: string): Promise<DutyPass> {
    checkName(name, "duties.run: name");
    return this.#setting.supervisor.runToEnd(name);
  }

  /** The duties that this process may do. */
  get names(): readonly string[] {
    return this.#setting.supervisor.dutyNames;
  }

  /** What the duties of all live processes have done. */
  list(): Promise<readonly DutyView[]> {
    return readDutyViews(this.#needs.store, this.names);
  }

  /** Items that a duty quarantines for a while after repeated failures. */
  quarantined(): Promise<readonly QuarantinedDutyItem[]> {
    return readQuarantinedItems(this.#needs.store);
  }

  /** @internal @returns the duties whose pass did not end in time. */
  async stop(graceMs: number): Promise<readonly string[]> {
    return this.#isRunning ? this.#setting.supervisor.stop(graceMs) : [];
  }
}

/** Records that the store could not read: they are in no list and no count, and stay until they are deleted. */
export class Unreadable {
  readonly #needs: Needs<"store">;

  constructor(needs: Needs<"store">) {
    this.#needs = needs;
  }

  list(): Promise<readonly UnreadableItem[]> {
    return readUnreadableItems(this.#needs.store);
  }

  /** @param refs those of `list()`. @returns how many it deleted. */
  async delete(refs: readonly string[]): Promise<number> {
    if (!Array.isArray(refs) || refs.some((ref) => typeof ref !== "string"))
      throw invalidOption("unreadable.delete: the refs must be a list of texts.");
    return refs.length === 0 ? 0 : this.#needs.store.deleteUnreadable(refs);
  }
}
