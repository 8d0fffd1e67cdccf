/**
 * One run of real processes on one store: starts them, waits for conditions, and takes the evidence for the history
 * checker when all has ended. The store given here only looks; what the processes did they said themselves.
 */
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { Evidence, Operation } from "../history/history.ts";
import { takeSnapshot } from "../history/snapshot.ts";
import type { ChaosOptions } from "./chaos-process.ts";
import { Supervisor } from "./supervisor.ts";
import type { ChaosProcess } from "./supervisor.ts";

export interface ChaosPlace {
  readonly store: Store;
  /** By which the processes open it. */
  readonly url: string;
}

export class ChaosRun {
  readonly supervisor = new Supervisor();
  readonly #place: { readonly url: string; readonly store: Store | null };
  readonly #leaseMs: number;

  /** @param place without a store where only `start` and `evidenceOf` are used. */
  constructor(place: { readonly url: string; readonly store: Store | null }, leaseMs: number) {
    this.#place = place;
    this.#leaseMs = leaseMs;
  }

  start(given: Partial<ChaosOptions> & Pick<ChaosOptions, "role" | "name">): ChaosProcess {
    const { url } = this.#place;
    const leaseMs = this.#leaseMs;
    return this.supervisor.start({ url, leaseMs, concurrency: 8, from: 1, to: 0, everyMs: 1, ...given });
  }

  async isDrained(): Promise<boolean> {
    const store = this.#place.store as Store;
    const stateCounts = await store.countJobs();
    // A partition that does not answer is not counted.
    if ((store.missing?.() ?? []).length > 0) return false;
    return stateCounts.every(
      ({ state }) => state !== "ready" && state !== "running" && state !== "scheduled",
    );
  }

  /** Stops the workers in good order and takes the evidence. */
  async finish(isFaultFree: boolean): Promise<Evidence> {
    await this.supervisor.stopAll();
    return this.evidenceOf(this.#place.store as Store, isFaultFree);
  }

  /** @param store that looks; all processes have ended. */
  async evidenceOf(store: Store, isFaultFree: boolean): Promise<Evidence> {
    const snapshot = await takeSnapshot(store, createSeededRandom("pages"));
    const stops = this.supervisor.processes.flatMap(({ name, stopped }): Operation[] => {
      if (stopped === null) return [];
      const { owner, atUs, notStopped } = stopped;
      const held = snapshot.jobs
        .filter((job) => job.state === "running" && job.owner === owner)
        .map(({ id }) => id);
      const isUndisturbed = notStopped === 0;
      const times = { invokedUs: atUs, answeredUs: atUs, order: null };
      return [{ kind: "stop", actor: name, owner, seen: "ok", held, isUndisturbed, ...times }];
    });
    return {
      operations: [...this.supervisor.operations, ...stops],
      effects: this.supervisor.effects,
      snapshot,
      isFaultFree,
      slackMs: 10_000,
      healedAt: null,
      leftovers: {},
    };
  }
}

export const countEvents = ({ snapshot }: Evidence, kind: string): number =>
  snapshot.feed.reduce((sum, { events }) => sum + events.filter((event) => event.kind === kind).length, 0);
