/**
 * A Millrace on a store that the test holds, so that the test can look past it, break it or give one store to several.
 */
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import type { MillraceOptions } from "../../src/client/millrace-options.ts";
import { createServices } from "../../src/engine/services.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Platform } from "../../src/platform/platform.ts";
import type { Store } from "../../src/store/store.ts";

export function millOn(
  store: Store,
  options: MillraceOptions = {},
  platform: Platform = nodePlatform,
): Millrace {
  const { settings, log, duties } = readMillraceOptions(platform, { log: false, ...options });
  return new Millrace(createServices(store, platform, settings, log), duties);
}
