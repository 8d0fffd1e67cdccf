/**
 * One run of real processes on one bucket on disk, of which one writes at a time. What has become of it is read by a
 * view when all processes have ended.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openBucketView } from "../../src/stores/bucket/copy/bucket-view.ts";
import { openFiles } from "../../src/stores/bucket/objects/files.ts";
import type { Evidence } from "../history/history.ts";
import type { ChaosOptions } from "./chaos-process.ts";
import { ChaosRun } from "./chaos-run.ts";
import { landedOnly } from "./landed-only.ts";
import type { ChaosProcess } from "./supervisor.ts";

export interface BucketRun {
  readonly folder: string;
  readonly processes: readonly ChaosProcess[];
  /** A process that works and enqueues, once the bucket is its own. */
  start(name: string, options?: Partial<ChaosOptions>): ChaosProcess;
  look<Answer>(at: (store: Store) => Promise<Answer>): Promise<Answer>;
  /** Stops all processes and takes the evidence. */
  finish(): Promise<Evidence>;
  remove(): Promise<void>;
}

export async function openBucketRun(leaseMs: number): Promise<BucketRun> {
  const root = await mkdtemp(join(tmpdir(), "millrace-bucket-run-"));
  const folder = join(root, "bucket");
  const cacheFolder = join(root, "cache");
  const url = `file://${folder}`;
  const openView = async (): Promise<Store> =>
    openBucketView({
      objects: await openFiles(folder, nodePlatform),
      platform: nodePlatform,
      cacheFolder: join(root, "views"),
    });
  const started = new ChaosRun({ url, store: null }, leaseMs);
  const look: BucketRun["look"] = async (at) => {
    const view = await openView();
    try {
      return await at(view);
    } finally {
      await view.close();
    }
  };
  return {
    folder,
    processes: started.supervisor.processes,
    start: (name, { store = {}, ...options } = {}) =>
      started.start({
        ...{ role: "both", name, ...options },
        store: { ...store, bucket: { cacheFolder, ...store.bucket } },
      }),
    look,
    async finish() {
      await started.supervisor.stopAll();
      return landedOnly(await look((store) => started.evidenceOf(store, false)));
    },
    async remove() {
      await started.supervisor.killAll();
      await rm(root, { recursive: true, force: true });
    },
  };
}
