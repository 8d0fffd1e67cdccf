/**
 * Fresh embedded stores for the contract suite. Files live in one temporary folder that goes when the tests are over.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll } from "vitest";
import { stateCodes } from "../../src/model/job-state.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import type { Blockable } from "./blocked-holder-suite.ts";
import type { OpenStore } from "./contract-suite.ts";

export const openInMemory: OpenStore = ({ platform }) => openSqliteStore({ path: ":memory:", platform });

export function openOnFile(executor: "inline" | "thread"): OpenStore {
  const nextPath = useFiles();
  return ({ platform }) => openSqliteStore({ path: nextPath(), platform, executor });
}

/** A store whose jobs can be blocked, over a connection of the test's own. */
export function openBlockable(): (options: Parameters<OpenStore>[0]) => Promise<Blockable> {
  const nextPath = useFiles();
  return async ({ platform }) => {
    const path = nextPath();
    const store = await openSqliteStore({ path, platform });
    return {
      store,
      async block(id) {
        const own = new DatabaseSync(path);
        const { blocked } = stateCodes;
        own.prepare("UPDATE millrace_job SET state = ?, timer_at = NULL WHERE id = ?").run(blocked, id);
        own.prepare("UPDATE millrace_tally SET state = ?").run(blocked);
        own.close();
      },
    };
  };
}

function useFiles(): () => string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-contract-"));
  let files = 0;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return () => join(folder, `${files++}.db`);
}
