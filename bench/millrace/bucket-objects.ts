/**
 * The objects of a bucket under measurement. A place of the bench is `KIND+LATENCY:FOLDER`, such as
 * `memory+50:/folder`. Objects in memory are read from the folder at the opening and written to it at the close, so
 * that one process can fill them for the next.
 */
import { basename } from "node:path";
import { openBucketObjects } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openFiles } from "../../src/stores/bucket/objects/files.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";
import { waitMs } from "../measure/clock.ts";
import type { ObjectsKind } from "../figures.ts";

export interface BucketPlace {
  readonly kind: ObjectsKind;
  readonly latencyMs: number;
  readonly folder: string;
}

export const placeOf = ({ kind, latencyMs, folder }: BucketPlace): string => `${kind}+${latencyMs}:${folder}`;

export function readPlace(place: string): BucketPlace {
  const [, kind, latency, folder] = /^(\w+)\+(\d+):(.+)$/.exec(place) ?? [];
  if (folder === undefined) throw new Error(`${place} is no place of a bucket.`);
  return { kind: kind as ObjectsKind, latencyMs: Number(latency), folder };
}

/** One process's client; the client of another writer of the same process is opened by `again`. */
export interface BenchBucket {
  readonly objects: Objects;
  readonly again: () => Promise<Objects>;
}

export async function openBucket(place: string): Promise<BenchBucket> {
  const { kind, latencyMs, folder } = readPlace(place);
  const late = (objects: Objects): Objects => (latencyMs === 0 ? objects : lateObjects(objects, latencyMs));
  if (kind !== "memory") {
    const open = async (): Promise<Objects> => late(await openObjects(kind, folder));
    return { objects: await open(), again: open };
  }
  const bucket = new MemoryBucket();
  const files = await openFiles(folder, nodePlatform);
  await copyObjects(files, bucket.open());
  const objects = late(bucket.open());
  const close = async (): Promise<void> => {
    await copyObjects(bucket.open(), files);
    await files.close();
  };
  return { objects: closedBy(objects, close), again: async () => late(bucket.open()) };
}

/** In a folder, or under a prefix with its name on the server that the bench has started. */
export function openObjects(kind: Exclude<ObjectsKind, "memory">, folder: string): Promise<Objects> {
  if (kind === "disk") return openFiles(folder, nodePlatform);
  const url = `${kind === "s3" ? "s3" : "az"}://${benchContainer}/${basename(folder)}`;
  const endpoint = process.env[endpointVariable];
  if (endpoint === undefined) throw new Error("The bench has started no server for objects.");
  return openBucketObjects(nodePlatform, url, { bucket: { endpoint } });
}

export const benchContainer = "bench";
export const endpointVariable = "MILLRACE_BENCH_OBJECTS";

/** Each request takes so long before it has its effect. */
function lateObjects(objects: Objects, latencyMs: number): Objects {
  const late = async <Answer>(verb: () => Promise<Answer>): Promise<Answer> => {
    await waitMs(latencyMs);
    return verb();
  };
  return {
    put: (...given) => late(() => objects.put(...given)),
    get: (...given) => late(() => objects.get(...given)),
    list: (...given) => late(() => objects.list(...given)),
    remove: (...given) => late(() => objects.remove(...given)),
    close: () => objects.close(),
  };
}

function closedBy(objects: Objects, close: () => Promise<void>): Objects {
  return {
    put: (...given) => objects.put(...given),
    get: (...given) => objects.get(...given),
    list: (...given) => objects.list(...given),
    remove: (...given) => objects.remove(...given),
    close,
  };
}

export async function copyObjects(from: Objects, to: Objects): Promise<void> {
  for (let after: string | null = null; ;) {
    const { names, isLast } = await from.list("", after);
    for (const name of names) {
      const bytes = await from.get(name);
      if (bytes !== null) await to.put(name, bytes, false);
    }
    if (isLast) return;
    after = names.at(-1) as string;
  }
}
