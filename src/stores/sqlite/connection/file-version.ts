/** Which version's tables a file has, by looking only: for whoever wants to know before anything is migrated. */
import { existsSync } from "node:fs";
import { storeError } from "./errors.ts";
import { readSchemaVersion } from "./migrate.ts";
import { checkFile, memoryPath, openDatabase, threadSleepMs } from "./open-file.ts";

/** 0 for a file that is not there or has no tables of Millrace. Throws for a newer one. */
export function readFileVersion(given: string): number {
  if (given === memoryPath) return 0;
  const path = checkFile(given);
  if (!existsSync(path)) return 0;
  const database = openDatabase({ path, durability: "strict", lockSleepMs: threadSleepMs });
  try {
    return readSchemaVersion(database, path);
  } catch (error) {
    throw storeError(error, path);
  } finally {
    database.close();
  }
}
