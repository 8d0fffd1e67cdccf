/** The embedded store keeps the contract: in memory, and on a file with each of its executors. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { describeStoreContract } from "./contract-suite.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-contract-"));
let files = 0;
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describeStoreContract("sqlite in memory", ({ platform }) => openSqliteStore({ path: ":memory:", platform }));

for (const executor of ["inline", "thread"] as const) {
  describeStoreContract(`sqlite on a file, ${executor}`, ({ platform }) =>
    openSqliteStore({ path: join(folder, `${files++}.db`), platform, executor }),
  );
}
