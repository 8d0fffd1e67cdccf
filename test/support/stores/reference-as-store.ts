/**
 * The reference model behind the asynchronous face of a store, so that the contract suite and the histories can drive
 * it like one.
 */
import { notYetSupported } from "../../../src/model/error.ts";
import type { Platform } from "../../../src/platform/platform.ts";
import type { Store } from "../../../src/store/store.ts";
import { ReferenceStore } from "../../model/reference-store.ts";

export function openReference(platform: Platform, epoch: number): Store {
  const reference = new ReferenceStore(() => platform.now(), epoch);
  const later = (what: string) => (): Promise<never> => Promise.reject(notYetSupported(what));
  return {
    describe: async () => ({
      kind: "reference",
      durability: "memory",
      epoch,
      now: platform.now(),
      schemaVersion: 1,
      capabilities: { transactions: false, processes: "one" },
      warnings: [],
    }),
    submit: async (units) => reference.submit(units),
    claim: async (request) => reference.claim(request),
    heartbeat: async (request) => reference.heartbeat(request),
    settleIfLeased: async (settles) => reference.settleIfLeased(settles),
    extendIfLeased: async (request) => reference.extendIfLeased(request),
    recordIfLeased: async (writes) => reference.recordIfLeased(writes),
    changeIf: async (changes) => reference.changeIf(changes),
    promoteDue: async (request) => reference.promoteDue(request),
    readDue: async (request) => reference.readDue(request),
    putGates: async (puts) => reference.putGates(puts),
    readGates: async (request) => reference.readGates(request),
    putDocs: async (puts) => reference.putDocs(puts),
    readDueDocs: async (request) => reference.readDueDocs(request),
    readDocs: async (request) => reference.readDocs(request),
    readJobs: async (ids) => reference.readJobs(ids),
    findJobs: async (request) => reference.findJobs(request),
    countJobs: async () => reference.countJobs(),
    readRoutes: async () => reference.readRoutes(),
    readFeed: async (request) => reference.readFeed(request),
    readLogs: async (request) => reference.readLogs(request),
    readFrames: async (reads) => reference.readFrames(reads),
    readJournal: async (reads) => reference.readJournal(reads),
    prune: async (request) => reference.prune(request),
    auditIndexes: async (request) => reference.auditIndexes(request),
    readUnreadable: async () => ({ records: [], cursor: null }),
    deleteUnreadable: async () => 0,
    exportPage: later("exportPage"),
    importPage: later("importPage"),
    watch: () => () => undefined,
    inTransaction: () => {
      throw notYetSupported("inTransaction");
    },
    close: async () => undefined,
  };
}
