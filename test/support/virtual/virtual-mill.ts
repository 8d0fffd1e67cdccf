/** A whole Millrace on a store in memory and virtual time, for tests of engine, worker and client. */
import type { Millrace } from "../../../src/client/millrace.ts";
import type { CloseReport } from "../../../src/client/millrace.ts";
import type { MillraceOptions } from "../../../src/client/millrace-options.ts";
import { partitionedStore } from "../../../src/store/partitioned/partitioned-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { openSqliteStore } from "../../../src/stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../../src/testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../../src/testing/virtual-platform.ts";
import { settleTurn } from "../../../src/testing/virtual-time.ts";
import { millOn } from "../mill-on.ts";

export interface VirtualMill {
  readonly mill: Millrace;
  readonly store: Store;
  readonly platform: VirtualPlatform;
  /** Lets time run until the promise settles. */
  run<Value>(promise: Promise<Value>): Promise<Value>;
  /** Lets time run for so long. */
  advance(ms: number): Promise<void>;
  close(): Promise<CloseReport>;
}

const patienceUs = 24 * 3_600_000_000;

export async function openVirtualMill(options: MillraceOptions = {}, partitions = 1): Promise<VirtualMill> {
  const platform = createVirtualPlatform();
  const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
  const open = (): Promise<Store> => openSqliteStore({ path: ":memory:", platform });
  const store =
    partitions === 1
      ? await open()
      : partitionedStore(await Promise.all(Array.from({ length: partitions }, open)), { platform });
  const mill = millOn(store, options, platform);
  return {
    mill,
    store,
    platform,
    run,
    advance: (ms) => platform.time.advance(ms * 1000),
    close: () => run(mill.close()),
  };
}

export async function runUntil<Value>(platform: VirtualPlatform, promise: Promise<Value>): Promise<Value> {
  let isSettled = false;
  promise.then(
    () => (isSettled = true),
    () => (isSettled = true),
  );
  const untilUs = platform.time.elapsedUs + patienceUs;
  await settleTurn();
  while (!isSettled) {
    if (!(await platform.time.step(untilUs))) {
      await settleTurn();
      if (!isSettled) throw new Error("the promise did not settle although all time has passed");
    }
  }
  return promise;
}

/** A promise and the functions that settle it. */
export function deferred<Value = void>(): {
  promise: Promise<Value>;
  resolve: (value: Value) => void;
  reject: (error: unknown) => void;
} {
  return Promise.withResolvers<Value>();
}
