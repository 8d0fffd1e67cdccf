/**
 * In which order Vitest runs the files: first those that need a worker of their own, then suites, and unit tests last,
 * which are so short that the workers end together. Suites that keep a CPU busy take turns with suites that mostly wait
 * for leases, servers and killed processes, because a run has more workers than CPUs. Within each of these the order is
 * Vitest's: the longest first, or the largest where nothing has run yet.
 */
import { BaseSequencer } from "vitest/node";
import type { TestSpecification } from "vitest/node";

const busyFolders = [
  "bench",
  "test/contract",
  "test/examples",
  "test/model",
  "test/package",
  "test/simulation",
];
const waitingFolders = ["test/chaos", "test/cli", "test/sandbox", "test/fleet"];

export class RunOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { root } = this.ctx.config;
    const sorted = await super.sort(files);
    const isIn = (folders: readonly string[], { moduleId }: TestSpecification): boolean =>
      folders.some((folder) => moduleId.startsWith(`${root}/${folder}/`));
    const shared = sorted.filter(({ project }) => !project.config.isolate);
    const busy = shared.filter((file) => isIn(busyFolders, file));
    const waiting = shared.filter((file) => isIn(waitingFolders, file));
    const suites = Array.from({ length: Math.max(busy.length, waiting.length) }, (_, at) => [
      ...busy.slice(at, at + 1),
      ...waiting.slice(at, at + 1),
    ]).flat();
    const alone = sorted.filter(({ project }) => project.config.isolate);
    return [...new Set([...alone, ...suites, ...shared])];
  }
}
