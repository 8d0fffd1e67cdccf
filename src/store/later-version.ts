/** Requests of a later version (moving a store) are refused, never ignored. */
import { notYetSupported } from "../model/error.ts";
import type { Store } from "./store.ts";

/** The operations of the contract that no store has yet. */
export const laterOperations = {
  exportPage: () => Promise.reject(notYetSupported("exportPage")),
  importPage: () => Promise.reject(notYetSupported("importPage")),
} satisfies Partial<Store>;
