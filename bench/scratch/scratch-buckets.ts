/**
 * Buckets of one run of the bench: a folder each, on the disk the repository lies on. The SQLite file that a bucket is
 * measured beside lies in the folder too.
 */
import { cp, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  benchContainer,
  copyObjects,
  endpointVariable,
  openObjects,
  placeOf,
  readPlace,
} from "../millrace/bucket-objects.ts";
import { wallMs } from "../measure/clock.ts";
import type { ObjectsKind } from "../figures.ts";
import { ScratchFiles } from "./scratch-files.ts";

export class ScratchBuckets extends ScratchFiles {
  readonly #kind: ObjectsKind;
  readonly #latencyMs: number;
  #server: Server | null = null;

  constructor(kind: ObjectsKind, latencyMs: number) {
    super();
    this.#kind = kind;
    this.#latencyMs = latencyMs;
  }

  override async open(): Promise<void> {
    await super.open();
    this.#server = await startServer(this.#kind);
  }

  override async fresh(): Promise<string> {
    const folder = await super.fresh();
    await mkdir(folder);
    return placeOf({ kind: this.#kind, latencyMs: this.#latencyMs, folder });
  }

  override async copyOf(place: string): Promise<string> {
    const copy = await this.fresh();
    const [from, to] = [readPlace(place).folder, readPlace(copy).folder];
    await cp(from, to, { recursive: true });
    if (this.#kind === "s3" || this.#kind === "azurite") {
      const [source, target] = await Promise.all([
        openObjects(this.#kind, from),
        openObjects(this.#kind, to),
      ]);
      await copyObjects(source, target);
      await Promise.all([source.close(), target.close()]);
    }
    return copy;
  }

  override async close(): Promise<void> {
    await this.#server?.stop();
    await super.close();
  }

  override async remove(place: string): Promise<void> {
    await rm(readPlace(place).folder, { recursive: true, force: true });
  }
}

interface Server {
  readonly stop: () => Promise<void>;
}

/** The measuring processes find it by the environment. */
async function startServer(kind: ObjectsKind): Promise<Server | null> {
  if (kind === "azurite") {
    const { azuriteAccount, azuriteKey, startAzurite } =
      await import("../../test/support/servers/azurite.ts");
    const azurite = await startAzurite();
    await azurite.makeContainer(benchContainer);
    process.env["AZURE_STORAGE_ACCOUNT"] = azuriteAccount;
    process.env["AZURE_STORAGE_KEY"] = azuriteKey;
    process.env[endpointVariable] = azurite.endpoint;
    return azurite;
  }
  if (kind === "s3") {
    const { openS3Server } = await import("../../test/support/servers/s3-server.ts");
    const server = await openS3Server({ bucket: benchContainer, now: wallMs });
    process.env["AWS_ACCESS_KEY_ID"] = server.accessKeyId;
    process.env["AWS_SECRET_ACCESS_KEY"] = server.secretAccessKey;
    process.env["AWS_REGION"] = server.region;
    process.env[endpointVariable] = server.url;
    return { stop: () => server.close() };
  }
  return null;
}

export const fileBeside = (place: string): string => join(readPlace(place).folder, "beside.db");
