// Vitest runs the TypeScript sources as they are: the condition "millrace-source" makes `import ... from "millrace"` mean src/.
import { defineConfig } from "vitest/config";

const conditions = ["millrace-source", "node", "import", "module", "default"];
// Vitest hands these to Node as well, where "import" and "module" among them would make require() load ES modules.
const nodeConditions = ["millrace-source", "node"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions: nodeConditions, externalConditions: nodeConditions } },
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts", "bench/**/*.test.ts"],
    pool: "forks",
    execArgv: ["--conditions=millrace-source"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    retry: 0,
  },
});
