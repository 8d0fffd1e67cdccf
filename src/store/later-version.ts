/**
 * Requests that only a later version will understand (flows, signals, moving a store) are refused before
 * anything is written, never ignored.
 */
import { notYetSupported } from "../model/error.ts";
import type { Settle, SubmitUnit } from "./operations.ts";
import type { NewJob } from "./records.ts";
import type { Store } from "./store.ts";

const laterFields = ["need", "slack"] as const satisfies readonly (keyof NewJob)[];

export function checkUnits(units: readonly SubmitUnit[]): void {
  for (const { jobs } of units) checkJobs(jobs);
}

export function checkSettles(settles: readonly Settle[]): void {
  for (const { effects } of settles) if (effects?.jobs !== undefined) checkJobs(effects.jobs);
}

function checkJobs(jobs: readonly NewJob[]): void {
  for (const job of jobs) {
    for (const field of laterFields)
      if (job[field] !== undefined) throw notYetSupported(`The field ${field} of a job`);
  }
}

/** The operations of the contract that no store has yet. */
export const laterOperations = {
  takeOwed: () => Promise.reject(notYetSupported("takeOwed")),
  signal: () => Promise.reject(notYetSupported("signal")),
  adjust: () => Promise.reject(notYetSupported("adjust")),
  exportPage: () => Promise.reject(notYetSupported("exportPage")),
  importPage: () => Promise.reject(notYetSupported("importPage")),
} satisfies Partial<Store>;
