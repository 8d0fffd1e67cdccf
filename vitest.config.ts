// Vitest runs the TypeScript sources as they are: the condition "millrace-source" makes `import ... from "millrace"` mean src/.
import { defineConfig } from "vitest/config";

const conditions = ["millrace-source", "node", "import", "module", "default"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts", "bench/**/*.test.ts"],
    pool: "forks",
    execArgv: ["--conditions=millrace-source"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    retry: 0,
  },
});
