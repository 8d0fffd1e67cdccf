/**
 * A moment by both clocks. A machine that sleeps may stop the monotonic one, and a person may set the wall clock back,
 * so the time since then is what the clock says that says more.
 */
import type { Platform } from "../../platform/platform.ts";

export interface Moment {
  readonly nowMs: number;
  readonly monotonicUs: number;
}

type Clocks = Pick<Platform, "now" | "monotonicUs">;

export function momentOf(platform: Clocks): Moment {
  return { nowMs: platform.now(), monotonicUs: platform.monotonicUs() };
}

export function sinceMs({ nowMs, monotonicUs }: Moment, platform: Clocks): number {
  return Math.max(platform.now() - nowMs, (platform.monotonicUs() - monotonicUs) / 1000);
}
