/** Requests of a later version (moving a store) are refused, never ignored. */
import { notYetSupported } from "../model/error.ts";
import type { Store, TransactionStore } from "./store.ts";

/** The operations of the contract that no store has yet. */
export const laterOperations = {
  exportPage: () => Promise.reject(notYetSupported("exportPage")),
  importPage: () => Promise.reject(notYetSupported("importPage")),
} satisfies Partial<Store>;

/** Of a store in whose transactions nothing of a step is committed. */
export const laterSlips = {
  commitSlip: () => Promise.reject(notYetSupported("commitSlip")),
} satisfies Partial<TransactionStore>;
