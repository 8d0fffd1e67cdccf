/**
 * Reads which version's tables a store has, by reading only: nothing is made, migrated or entered. The migrate command
 * needs it, and so do the commands that refuse a URL without a store.
 */
import { MillraceError, notYetSupported } from "../../model/error.ts";
import { openBucketObjects, sqlitePath } from "../../open.ts";
import type { Platform } from "../../platform/platform.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";

export interface StoreVersion {
  /** The version of the tables that are there; 0 if there is no store. */
  readonly from: number;
  /** The version that this Millrace brings them to. */
  readonly to: number;
}

/** Throws for a store of a newer version. */
export async function readStoreVersion(platform: Platform, url: string): Promise<StoreVersion> {
  const scheme = url.slice(0, url.indexOf(":")).toLowerCase();
  if (scheme === "sqlite") {
    const { readFileVersion } = await import("../../stores/sqlite/connection/file-version.ts");
    const { schemaVersion } = await import("../../stores/sqlite/connection/schema.ts");
    return { from: readFileVersion(sqlitePath(url)), to: schemaVersion };
  }
  if (scheme === "postgres" || scheme === "postgresql") {
    const { readPostgresVersion } = await import("../../stores/postgres/connection/examine.ts");
    const { schema, from, to } = await readPostgresVersion({ url, platform });
    if (from <= to) return { from, to };
    const sentence = `The schema ${schema} has the tables of a newer Millrace (version ${from}, this one knows ${to}). Upgrade this process.`;
    throw new MillraceError("schema-newer", sentence);
  }
  if (/^(redis|valkey)s?$/.test(scheme)) {
    const { readRedisVersion } = await import("../../stores/redis/upkeep/examine.ts");
    return readRedisVersion({ url, platform });
  }
  if (isBucketUrl(url)) {
    const { readBucketVersion } = await import("../../stores/bucket/copy/bucket-version.ts");
    const { schemaVersion } = await import("../../stores/sqlite/connection/schema.ts");
    const objects = await openBucketObjects(platform, url, { bucket: { view: true } });
    return { from: await readBucketVersion(objects, platform), to: schemaVersion };
  }
  throw notYetSupported("Reading the version of a store of this scheme");
}
