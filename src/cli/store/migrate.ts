/**
 * `millrace migrate`: brings a store's tables to this version. Every opening does the same; the command exists so that
 * it can be done before a deployment, by a user who owns the schema. With --dry-run it only says what would be done.
 */
import { openStore } from "../../open.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { storeUrl } from "./open-store.ts";
import { toJson } from "../output/print-json.ts";
import { readStoreVersion } from "./store-version.ts";
import type { StoreVersion } from "./store-version.ts";

export const migrate: Command = {
  name: "migrate",
  usage: "migrate [--dry-run]",
  summary: "bring a store's tables to this version, or say what would be done",
  words: [0, 0],
  options: {
    ...storeOption,
    "dry-run": { meaning: "write nothing; say which versions the tables would go through" },
  },
  examples: ["migrate --store postgres://owner@localhost/app", "migrate --dry-run"],
  async run(call) {
    const { terminal, platform, options, wantsJson } = call;
    const url = storeUrl(call);
    const isDryRun = options.has("dry-run");
    const { from, to } = await readStoreVersion(platform, url);
    // Tables of a bucket are migrated by its writer.
    const takes = isBucketUrl(url) && options.has("take");
    const opening = takes ? { bucket: { whenHeld: "take" } as const } : {};
    if (!isDryRun) await (await openStore(platform, url, opening)).close();
    const steps = Array.from({ length: to - from }, (_, index) => from + index + 1);
    const report = { from, to, steps, dryRun: isDryRun };
    terminal.writeOut(`${wantsJson ? toJson(report) : describe(report)}\n`);
    return 0;
  },
};

function describe({
  from,
  to,
  steps,
  dryRun,
}: StoreVersion & { steps: readonly number[]; dryRun: boolean }): string {
  if (steps.length === 0) return `the tables are of version ${to}: nothing to do`;
  const before = from === 0 ? "there are no tables yet" : `the tables are of version ${from}`;
  return dryRun
    ? `${before}; would migrate to version ${steps.join(", then ")}; nothing was written`
    : `${before.replace("are", "were").replace(" yet", "")}; migrated to version ${steps.join(", then ")}`;
}
