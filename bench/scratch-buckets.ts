/**
 * Buckets of one run of the bench: a folder each, on the disk the repository lies on. The SQLite file that a bucket is
 * measured beside lies in the folder too.
 */
import { cp, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { placeOf, readPlace } from "./bucket-objects.ts";
import type { ObjectsKind } from "./figures.ts";
import { ScratchFiles } from "./scratch-files.ts";

export class ScratchBuckets extends ScratchFiles {
  readonly #kind: ObjectsKind;
  readonly #latencyMs: number;

  constructor(kind: ObjectsKind, latencyMs: number) {
    super();
    this.#kind = kind;
    this.#latencyMs = latencyMs;
  }

  override async fresh(): Promise<string> {
    const folder = await super.fresh();
    await mkdir(folder);
    return placeOf({ kind: this.#kind, latencyMs: this.#latencyMs, folder });
  }

  override async copyOf(place: string): Promise<string> {
    const copy = await this.fresh();
    await cp(readPlace(place).folder, readPlace(copy).folder, { recursive: true });
    return copy;
  }

  override async remove(place: string): Promise<void> {
    await rm(readPlace(place).folder, { recursive: true, force: true });
  }
}

export const fileBeside = (place: string): string => join(readPlace(place).folder, "beside.db");
