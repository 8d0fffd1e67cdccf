// A Vitest reporter that ends the output with one plain line, `N passed, N failed`, for people and programs that read
// only the last line. A file that does not load, an error that escapes its test, and a test that was left out because a
// hook before it failed count as failures, so that the line never looks better than the run was.
import type { Reporter, TestModule } from "vitest/node";

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      failed += module.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        const isLeftOut = state === "skipped" && test.options.mode === "run";
        if (state === "passed") passed++;
        if (state === "failed" || isLeftOut) failed++;
      }
      for (const suite of module.children.allSuites()) failed += suite.errors().length;
    }
    // Printed on exit, because Vitest's own summary comes after this call.
    process.once("exit", () => console.log(`${passed} passed, ${failed} failed`));
  }
}
