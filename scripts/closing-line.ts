// A Vitest reporter that ends the output with one plain line, `N passed, N failed`, for people and programs that read
// only the last line. A file that does not load and an error that escapes its test count as failures, so that the line
// never looks better than the exit code.
import type { Reporter, TestModule } from "vitest/node";

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      failed += module.errors().length;
      for (const test of module.children.allTests()) {
        if (test.result().state === "passed") passed++;
        if (test.result().state === "failed") failed++;
      }
      for (const suite of module.children.allSuites()) failed += suite.errors().length;
    }
    // Printed on exit, because Vitest's own summary comes after this call.
    process.once("exit", () => console.log(`${passed} passed, ${failed} failed`));
  }
}
