// Vitest runs the TypeScript sources as they are: the condition "millrace-source" makes `import ... from "millrace"`
// mean src/.
import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";
import { hangMs, testMaxMs } from "./test/support/hang-ms.ts";
import { RunOrder } from "./test/support/run-order.ts";

const conditions = ["millrace-source", "node", "import", "module", "default"];
// Vitest hands these to Node as well, where "import" and "module" among them would make require() load ES modules.
const nodeConditions = ["millrace-source", "node"];

/** Files that put something in the place of a module of ours, which the other files of a worker must not meet. */
const withMocks = [
  "test/contract/throwaway-field.test.ts",
  "test/model/lane-mutants.test.ts",
  "test/model/counter-mutants.test.ts",
];
const include = ["src/**/*.test.ts", "test/**/*.test.ts", "bench/**/*.test.ts", "scripts/**/*.test.ts"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions: nodeConditions, externalConditions: nodeConditions } },
  test: {
    // The files of a worker share its modules: loading them anew for each took two CPU seconds of every five of the
    // unit tests.
    projects: [
      {
        extends: true,
        test: { name: "shared", isolate: false, include, exclude: [...configDefaults.exclude, ...withMocks] },
      },
      { extends: true, test: { name: "alone", isolate: true, include: withMocks } },
    ],
    sequence: { sequencer: RunOrder },
    setupFiles: ["test/support/fixed-seed.ts"],
    // By which the files of one run find the servers that they share; process numbers come again.
    env: { MILLRACE_TEST_RUN: randomUUID() },
    pool: "forks",
    // Much of the time is spent waiting for servers, disks and leases, so two cores carry four files at once; left
    // alone Vitest takes one.
    maxWorkers: Math.max(4, availableParallelism()),
    execArgv: ["--conditions=millrace-source"],
    testTimeout: testMaxMs,
    hookTimeout: testMaxMs,
    expect: { poll: { timeout: hangMs } },
    retry: 0,
  },
});
