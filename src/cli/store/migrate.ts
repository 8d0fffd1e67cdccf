/**
 * `millrace migrate`: brings a store's tables to this version. Every opening does the same; the command exists so that
 * it can be done before a deployment, by a user who owns the schema. With --dry-run it only says what would be done.
 */
import { openStore } from "../../open.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import { flag } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { configuredOptions, storeUrl } from "./open-store.ts";
import { readStoreVersion } from "./store-version.ts";
import type { StoreVersion } from "./store-version.ts";

export const migrate = command({
  name: "migrate",
  summary: "bring a store's tables to this version, or say what would be done",
  options: { "dry-run": flag("write nothing; say which versions the tables would go through") },
  examples: ["migrate --store postgres://owner@localhost/app", "migrate --dry-run"],
  async run(call) {
    const { platform, options, answer } = call;
    const url = storeUrl(call);
    const dryRun = options["dry-run"] === true;
    const { from, to } = await readStoreVersion(platform, url);
    // Tables of a bucket are migrated by its writer.
    const takes = isBucketUrl(url) && call.store.take;
    const { durability, sqlite, postgres, redis } = configuredOptions(call, url);
    const opening = {
      ...(takes ? { bucket: { whenHeld: "take" } as const } : {}),
      ...(durability === undefined ? {} : { durability }),
      ...(sqlite === undefined ? {} : { sqlite }),
      ...(postgres === undefined ? {} : { postgres }),
      ...(redis === undefined ? {} : { redis }),
    };
    if (!dryRun) await (await openStore(platform, url, opening)).close();
    const steps = Array.from({ length: to - from }, (_, index) => from + index + 1);
    const report = { from, to, steps, dryRun };
    answer(report, describe(report));
  },
});

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
