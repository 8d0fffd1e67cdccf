/**
 * Fresh embedded stores for the contract suite. Files live in one temporary folder that goes when the tests are over.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { useOneThread } from "../support/one-thread.ts";
import type { OpenStore } from "./contract-suite.ts";

export const openInMemory: OpenStore = ({ platform }) => openSqliteStore({ path: ":memory:", platform });

export function openOnFile(): OpenStore {
  const nextPath = useFiles();
  return ({ platform }) => openSqliteStore({ path: nextPath(), platform, executor: "inline" });
}

export function openInThread(): OpenStore {
  const nextPath = useFiles();
  const startThread = useOneThread();
  return ({ platform }) => openSqliteStore({ path: nextPath(), platform, executor: "thread", startThread });
}

function useFiles(): () => string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-contract-"));
  let files = 0;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return () => join(folder, `${files++}.db`);
}
