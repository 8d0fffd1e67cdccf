/** Runs random histories on fresh stores and on the reference model: what each store's test of histories calls. */
import fc from "fast-check";
import type { Store } from "../../src/store/store.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import type { HeldPlatform } from "../support/virtual/held-platform.ts";
import { histories } from "./history-commands.ts";
import { HistoryWorld } from "./history-world.ts";
import type { Sightings } from "./history-world.ts";

const { HISTORY_SEED: seed, HISTORY_PATH: path, HISTORY_RUNS: runs } = process.env;
const replay = seed === undefined ? {} : { seed: Number(seed), ...(path === undefined ? {} : { path }) };

export async function expectSameAnswers(
  open: (platform: HeldPlatform) => Promise<Store>,
  numRuns: number,
  commandsMax: number,
): Promise<Sightings> {
  const sightings: Sightings = new Map();
  const property = fc.asyncProperty(histories(commandsMax), async (commands) => {
    const platform = createHeldPlatform();
    const store = await open(platform);
    try {
      const { epoch } = await store.describe();
      await new HistoryWorld(store, platform, { epoch, sightings }).run(commands);
    } finally {
      await store.close();
    }
  });
  await fc.assert(property, { numRuns: runs === undefined ? numRuns : Number(runs), ...replay });
  return sightings;
}
