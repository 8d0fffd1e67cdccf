/**
 * One stay of a run after another over a journal in memory, without faults: for tests that name what a handler does.
 */
import { JournalCursor } from "../../src/model/durable/journal-cursor.ts";
import type { Ending } from "../../src/model/durable/undo-plan.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Platform } from "../../src/platform/platform.ts";
import type { LiveCall } from "../../src/worker/durable/live-call.ts";
import { RunExecution } from "../../src/worker/durable/run-execution.ts";
import type { RunEnd, RunSettings } from "../../src/worker/durable/run-settings.ts";
import type { RunJournal } from "../../src/worker/durable/run-journal.ts";
import type { Step } from "../../src/worker/durable/step.ts";
import { StepCalls } from "../../src/worker/durable/step-calls.ts";
import { plainCodec } from "./durable-world.ts";
import { MemoryRun } from "./memory-run.ts";

export type AnyStep = Step<Record<string, unknown>>;
export type SoloHandler = (step: AnyStep) => Promise<unknown>;

export interface SoloOptions {
  readonly unaskedMs?: number;
  readonly judge?: (error: unknown) => "retry" | Ending;
  readonly undoDelayMs?: RunSettings["undoDelayMs"];
  /** Replays only. */
  readonly isDry?: true;
  /** Called before each append; the stay dies if it answers true. */
  readonly dies?: (when: "before" | "after", call: number) => boolean;
  /** Between what a call of the journal did and its answer. */
  readonly answers?: (kind: "append" | "suspend" | "read") => Promise<void>;
  readonly platform?: Platform;
}

export class SoloRun {
  /** The store's clock. */
  now = 1_000_000;
  readonly run = new MemoryRun(() => this.now);
  execution: RunExecution | null = null;

  /** One claim of the run. @returns how the stay ended; null if its process died. */
  stay(handle: SoloHandler, options: SoloOptions = {}): Promise<RunEnd | null> {
    const { run } = this;
    const fence = run.claim();
    let calls = 0;
    return new Promise((resolve) => {
      const { platform = nodePlatform, answers } = options;
      const call = async <Answer>(kind: "append" | "suspend", effect: () => Answer): Promise<Answer> => {
        const number = calls++;
        if (options.dies?.("before", number) === true) return this.#die(resolve);
        const answer = effect();
        await answers?.(kind);
        if (options.dies?.("after", number) === true) return this.#die(resolve);
        return answer;
      };
      const journal: RunJournal = {
        read: async (after) => {
          const answer = run.readIfLeased(fence, after);
          await answers?.("read");
          return answer;
        },
        append: (entries, starts) => call("append", () => run.append(fence, entries, starts)),
        suspend: (request) => call("suspend", () => run.suspend(fence, request)),
        commitSlip: async (_connection, slip) => run.commitSlip(fence, slip),
      };
      const page = run.read(0);
      const settings: RunSettings = {
        ...{ platform, codec: plainCodec, round: 0, idleMs: 0, lingerMs: -1 },
        unaskedMs: options.unaskedMs ?? 30_000,
        ...(options.isDry === undefined ? {} : { isDry: true }),
        version: { version: 1, isNew: page.entries.every(({ body }) => body.kind !== "version") },
        judge: options.judge ?? (() => "retry"),
        undoDelayMs: options.undoDelayMs ?? (() => null),
      };
      const execution = new RunExecution(journal, new JournalCursor<LiveCall>(0), settings, page, resolve);
      const parts = {
        run: { run: "run", round: 1 },
        journal,
        codec: plainCodec,
        platform,
        backoffs: nodePlatform,
        acquire: () => Promise.reject(new Error("no limits here")),
        usage: {
          report: () => Promise.reject(new Error("no budgets here")),
          reserve: () => Promise.reject(new Error("no budgets here")),
        },
        input: null,
        takes: () => true,
        childId: String,
        encodeInput: (input: unknown) => JSON.stringify(input),
      };
      const step = new StepCalls(execution, parts);
      this.execution = execution;
      execution.begin(() => handle(step));
    });
  }

  #die<Never>(resolve: (end: null) => void): Promise<Never> {
    resolve(null);
    return new Promise(() => undefined);
  }

  get kinds(): readonly string[] {
    return this.run.entries.map(({ body }) => body.kind);
  }
}
