// Vitest runs the TypeScript sources as they are: the condition "millrace-source" makes `import ... from "millrace"`
// mean src/.
import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

const conditions = ["millrace-source", "node", "import", "module", "default"];
// Vitest hands these to Node as well, where "import" and "module" among them would make require() load ES modules.
const nodeConditions = ["millrace-source", "node"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions: nodeConditions, externalConditions: nodeConditions } },
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts", "bench/**/*.test.ts"],
    setupFiles: ["test/support/fixed-seed.ts"],
    // By which the files of one run find the servers that they share; process numbers come again.
    env: { MILLRACE_TEST_RUN: randomUUID() },
    pool: "forks",
    // Much of the time is spent waiting for servers, disks and leases, so two cores carry three files at once; left alone
    // Vitest takes one.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    execArgv: ["--conditions=millrace-source"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    retry: 0,
  },
});
