/** The jobs of the test of killed writers of output, for its processes and for the test itself. */
import { job } from "../../src/index.ts";

const retry = { attempts: 100, backoff: { kind: "fixed", delay: 10, jitter: "none" } } as const;

/** Writes frames without steps: another attempt begins them anew. */
export const plainTalk = job<{ n: number }>("plain-talk", { retry });
/** Writes them in steps, two at a time. */
export const steppedTalk = job<{ n: number }>("stepped-talk", { durable: { version: 1 }, retry });

export const words = 12;
export const steps = ["one", "two", "three"];

/** What a part of a talk says. */
export const said = (part: string): string[] => Array.from({ length: words }, (_, at) => `${part}.${at}`);
