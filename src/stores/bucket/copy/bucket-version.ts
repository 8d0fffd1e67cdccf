/** Which version's tables the store of a bucket has, by looking only: nothing is fenced, made or migrated. */
import type { Platform } from "../../../platform/platform.ts";
import { readFileVersion } from "../../sqlite/connection/file-version.ts";
import { bucketError } from "../bucket-errors.ts";
import { makeCacheFolder } from "./cache-folder.ts";
import { headFrom, headName } from "../layout.ts";
import type { Objects } from "../objects/objects.ts";
import { retrying } from "../objects/retrying.ts";
import { Replica } from "./replica.ts";

/** 0 if there is no store yet. Throws for a newer one. Closes the objects. */
export async function readBucketVersion(given: Objects, platform: Platform): Promise<number> {
  const objects = retrying(given, platform);
  try {
    const head = await objects.get(headName);
    if (head === null) return 0;
    const folder = makeCacheFolder(null, platform);
    try {
      const replica = await Replica.restore(objects, {
        path: folder.path,
        pageSize: headFrom(head).pageSize,
      });
      replica.close();
      return readReplicaVersion(replica);
    } finally {
      folder.remove();
    }
  } catch (error) {
    throw bucketError(error, "did-not-happen");
  } finally {
    await objects.close();
  }
}

/** The same of a copy that SQLite has not opened. */
export function readReplicaVersion({ path, pageCount }: Replica): number {
  return pageCount === 0 ? 0 : readFileVersion(path);
}
