/** Requests of a later version (signals, budgets, moving a store) are refused, never ignored. */
import { notYetSupported } from "../model/error.ts";
import type { Store } from "./store.ts";

/** The operations of the contract that no store has yet. */
export const laterOperations = {
  signal: () => Promise.reject(notYetSupported("signal")),
  adjust: () => Promise.reject(notYetSupported("adjust")),
  exportPage: () => Promise.reject(notYetSupported("exportPage")),
  importPage: () => Promise.reject(notYetSupported("importPage")),
} satisfies Partial<Store>;
