// A Vitest reporter that ends the output with one plain line, `N passed, N failed`, for people and programs that read
// only the last line. A file that does not load, an error that escapes its test, and a test that was left out because a
// hook before it failed count as failures, so that the line never looks better than the run was.
import type { Reporter, TestModule, TestSuite } from "vitest/node";

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      failed += errorsOf(module);
      for (const test of module.children.allTests()) {
        if (test.result().state === "passed") passed++;
        if (test.result().state === "failed") failed++;
      }
      for (const suite of module.children.allSuites()) failed += errorsOf(suite);
    }
    // Printed on exit, because Vitest's own summary comes after this call.
    process.once("exit", () => console.log(`${passed} passed, ${failed} failed`));
  }
}

/** Vitest marks the tests of a failed hook as skipped, like those that were to be skipped. */
function errorsOf(suite: TestModule | TestSuite): number {
  const errors = suite.errors().length;
  if (errors === 0) return 0;
  const tests = [...suite.children.allTests("skipped")];
  return errors + tests.filter(({ options }) => options.mode === "run").length;
}
