/**
 * Timers that the handler of a durable run has set outside of its steps and that still run when the run comes to rest.
 * The handler's frames are dropped there, so such a timer fires into nothing, and a handler that waits for it never
 * goes on. Only timers are seen, and only those that the application's own code sets: a package under node_modules may
 * keep one for connections that several runs share. A lock or a connection looks like any other object.
 */
import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { MillraceError } from "../model/error.ts";
import { nodePlatform } from "../platform/node-platform.ts";
import { Suspended } from "../worker/control.ts";
import { isStepCode } from "../worker/durable/step-calls.ts";
import type { HandlerMiddleware } from "../worker/middleware.ts";

interface Stay {
  /** Where the timers that still run were set, by their asynchronous ids. */
  readonly timers: Map<number, string>;
}

const stays = new AsyncLocalStorage<Stay>();
const framesMax = 30;

export class HeldTimers {
  readonly #owners = new Map<number, Stay>();
  readonly #hook = createHook({
    init: (id, type) => {
      if (type !== "Timeout") return;
      const stay = stays.getStore();
      if (stay === undefined || isStepCode()) return;
      const place = placeOfCaller();
      if (place === null) return;
      stay.timers.set(id, place);
      this.#owners.set(id, stay);
    },
    destroy: (id) => {
      this.#owners.get(id)?.timers.delete(id);
      this.#owners.delete(id);
    },
  });

  /** The innermost layer. It throws what the drain fails with through `found`. */
  layer(found: (error: MillraceError) => void): HandlerMiddleware {
    return async (context, next) => {
      const stay: Stay = { timers: new Map() };
      const outcome = await stays.run(stay, next);
      if (!(outcome instanceof Suspended)) return outcome;
      // A timer that was cleared in this turn is reported as gone in the next one.
      await new Promise<void>((resolve) => nodePlatform.defer(resolve));
      const [place] = stay.timers.values();
      if (place !== undefined)
        found(
          new MillraceError(
            "held-across-wait",
            `The run ${context.id} rests while a timer of its handler runs, which was set ${place}. Set it in a step, or sleep with step.sleep.`,
          ),
        );
      return outcome;
    };
  }

  begin(): void {
    this.#hook.enable();
  }

  end(): void {
    this.#hook.disable();
    this.#owners.clear();
  }
}

/** The line of the application that sets the timer; null for a package. */
function placeOfCaller(): string | null {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = framesMax;
  const frames = (new Error("where").stack ?? "").split("\n").slice(1);
  Error.stackTraceLimit = limit;
  // This file, then Node, then who has called Node.
  const ofNode = frames.findIndex(isOfNode);
  const caller = frames.slice(ofNode).find((frame) => !isOfNode(frame));
  return caller === undefined || /[/\\]node_modules[/\\]/.test(caller) ? null : caller.trim();
}

const isOfNode = (frame: string): boolean => /\(node:|at node:/.test(frame);
