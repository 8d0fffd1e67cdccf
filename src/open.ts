/**
 * From a URL to a Millrace: the only place outside the command line and the tests that names a concrete store. A
 * store's code is loaded when its scheme is used, not before.
 */
import { Millrace } from "./client/millrace.ts";
import { readMillraceOptions } from "./client/millrace-options.ts";
import type { MillraceOptions, StoreOptions } from "./client/millrace-options.ts";
import { createServices } from "./engine/services.ts";
import { silentLogger } from "./engine/log/logger.ts";
import type { Logger } from "./engine/log/logger.ts";
import { durationMs } from "./model/duration.ts";
import type { Duration } from "./model/duration.ts";
import { isMillraceError, MillraceError, notYetSupported } from "./model/error.ts";
import type { ErrorCode } from "./model/error.ts";
import { checkNamespace, fileOfNamespace, placeOfNamespace } from "./model/namespace.ts";
import { checkNodeVersion } from "./model/node-version.ts";
import { Backoff } from "./platform/backoff.ts";
import { nodePlatform, nodeVersion } from "./platform/node-platform.ts";
import type { Platform } from "./platform/platform.ts";
import type { Objects } from "./stores/bucket/objects/objects.ts";
import type { Store } from "./store/store.ts";
import { bucketUrlIn, isBucketUrl, readBucketUrl } from "./stores/bucket/bucket-url.ts";

/**
 * Opens the store at a URL: `sqlite:./jobs.db`, `sqlite::memory:`, `postgres://user@host/database`, `redis://host`,
 * `s3://bucket/prefix`. Without a URL it is that of the variable MILLRACE_STORE.
 *
 * @example
 * const mill = await Millrace.open(); // MILLRACE_STORE=postgres://localhost/app
 */
export async function openMillrace(given?: string, options: MillraceOptions = {}): Promise<Millrace> {
  checkNodeVersion(nodeVersion);
  const url = given ?? nodePlatform.readEnv("MILLRACE_STORE");
  if (url === undefined)
    throw new MillraceError(
      "unknown-store",
      'No store is named: give open a URL such as "sqlite:./jobs.db", or set MILLRACE_STORE.',
    );
  const namespace = options?.namespace ?? nodePlatform.readEnv("MILLRACE_NAMESPACE");
  return openMillraceOn(nodePlatform, url, namespace === undefined ? options : { ...options, namespace });
}

/** For tests: the same on another platform, such as one with a virtual clock. */
export async function openMillraceOn(
  platform: Platform,
  url: string,
  options: MillraceOptions,
): Promise<Millrace> {
  const { settings, duties, log, store: storeOptions } = readMillraceOptions(platform, options);
  const store = await openThroughBlip(platform, () => openStore(platform, url, storeOptions, log));
  const services = createServices(store, platform, settings, log);
  try {
    if (services.retention.isUndeclared) await services.retention.learn();
  } catch (error) {
    // The worker and the retention duty go on trying, and nothing is pruned before.
    if (!(await isPartMissing(store))) {
      await store.close();
      throw error;
    }
  }
  return new Millrace(services, duties);
}

/** So many tries outlive a connection that is cut. A server that is not there is reported within a second. */
const opensMax = 4;
const reopenMs = { firstMs: 100, maxMs: 400 };
const cutOff: readonly ErrorCode[] = ["store-unavailable", "outcome-unknown"];

async function openThroughBlip(platform: Platform, open: () => Promise<Store>): Promise<Store> {
  const backoff = new Backoff(platform, reopenMs);
  for (let tries = 1; ; tries++) {
    try {
      return await open();
    } catch (error) {
      const mayWork = isMillraceError(error) && cutOff.includes(error.code);
      if (!mayWork || tries === opensMax) throw error;
      await new Promise<void>((resolve) => void backoff.retry(resolve));
    }
  }
}

async function isPartMissing(store: Store): Promise<boolean> {
  await store.describe().catch(() => undefined);
  return (store.missing?.() ?? []).length > 0;
}

const later = ["http", "https"];

export async function openStore(
  platform: Platform,
  given: string,
  givenOptions: StoreOptions = {},
  log: Logger = silentLogger,
): Promise<Store> {
  if (typeof given !== "string" || given === "") {
    throw new MillraceError("unknown-store", 'A store is named by a URL such as "sqlite:./jobs.db".');
  }
  const { url, options } = inNamespace(given, givenOptions);
  const scheme = schemeOf(url);
  if (scheme === "sqlite") {
    onlyFor("SQLite", options, "sqlite");
    const { openSqliteStore } = await import("./stores/sqlite/sqlite-store.ts");
    const { executor } = options.sqlite ?? {};
    return openSqliteStore({
      path: sqlitePath(url),
      platform,
      ...durabilityOf(options),
      ...(executor === undefined ? {} : { executor }),
    });
  }
  if (scheme === "postgres" || scheme === "postgresql") {
    onlyFor("Postgres", options, "postgres");
    const { openPostgresStore } = await import("./stores/postgres/postgres-store.ts");
    const { pool, callTimeout, ...rest } = options.postgres ?? {};
    return openPostgresStore({
      ...(pool === undefined ? { url } : { pool }),
      ...rest,
      ...callTimeoutOf(callTimeout, "postgres"),
      ...durabilityOf(options),
      platform,
    });
  }
  if (/^(redis|valkey)s?$/.test(scheme)) {
    onlyFor("Redis", options, "redis");
    const { openRedisStore } = await import("./stores/redis/redis-store.ts");
    const { client, callTimeout, ...rest } = options.redis ?? {};
    return openRedisStore({
      ...(client === undefined ? { url } : { client }),
      ...rest,
      ...callTimeoutOf(callTimeout, "redis"),
      ...durabilityOf(options),
      platform,
    });
  }
  if (isBucketUrl(url)) {
    onlyFor("bucket", options, "bucket");
    return openBucket(platform, url, options, log);
  }
  if (later.includes(scheme)) throw notYetSupported(`A store of the scheme ${scheme}:`);
  throw new MillraceError(
    "unknown-store",
    `${JSON.stringify(url.slice(0, 80))} has no scheme that Millrace knows; try "sqlite:./jobs.db".`,
  );
}

async function openBucket(
  platform: Platform,
  url: string,
  options: StoreOptions,
  log: Logger,
): Promise<Store> {
  if (options.durability === "relaxed")
    throw new MillraceError("durability-refused", "A bucket is always strict; leave durability out.");
  const { view = false, whenHeld, signal, cacheFolder, callTimeout, prices } = options.bucket ?? {};
  const timeout = callTimeoutOf(callTimeout, "bucket");
  const ofWriters = Object.entries({ whenHeld, signal, callTimeout }).find(
    ([, value]) => value !== undefined,
  );
  if (view && ofWriters !== undefined) {
    const sentence = `open: bucket.${ofWriters[0]} is of a process that writes, and a view does not; leave one of the two out.`;
    throw new MillraceError("invalid-option", sentence);
  }
  const { openBucketView } = await import("./stores/bucket/copy/bucket-view.ts");
  const { openBucketStore } = await import("./stores/bucket/bucket-store.ts");
  const objects = await openBucketObjects(platform, url, options);
  const given = {
    objects,
    platform,
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
    ...(prices === undefined ? {} : { prices }),
  };
  if (view) return openBucketView(given);
  return openBucketStore({
    ...given,
    ...timeout,
    ...(whenHeld === undefined ? {} : { whenHeld }),
    ...(signal === undefined ? {} : { signal }),
    onWaiting: (sentence) => log.warn(sentence),
  });
}

/** The objects of a bucket by its URL, also for commands that work on them instead of the store. */
export async function openBucketObjects(
  platform: Platform,
  url: string,
  { bucket }: StoreOptions = {},
): Promise<Objects> {
  const { bucketError } = await import("./stores/bucket/bucket-errors.ts");
  const { openObjects } = await import("./stores/bucket/objects/open-objects.ts");
  return openObjects(readBucketUrl(url), bucket ?? {}, platform).catch((error: unknown) => {
    throw bucketError(error, "did-not-happen");
  });
}

function schemeOf(url: string): string {
  return url.slice(0, Math.max(0, url.indexOf(":"))).toLowerCase();
}

/** A connection of the caller's own is reached by no URL, so the namespace goes into the options there. */
function inNamespace(url: string, options: StoreOptions): { url: string; options: StoreOptions } {
  const { namespace, postgres, redis } = options;
  if (namespace === undefined) return { url, options };
  const place = placeOfNamespace(checkNamespace(namespace, "open: namespace"));
  if (postgres?.schema !== undefined) throw twoPlaces(namespace, "schema");
  if (redis?.prefix !== undefined) throw twoPlaces(namespace, "prefix");
  const rest = { ...options };
  if (postgres?.pool !== undefined) rest.postgres = { ...postgres, schema: place };
  else if (redis?.client !== undefined) rest.redis = { ...redis, prefix: place };
  else return { url: urlInNamespace(url, namespace), options };
  return { url, options: rest };
}

/** The URL of the same server, or of a file beside the named one, where the namespace lives. */
export function urlInNamespace(url: string, namespace: string): string {
  const place = placeOfNamespace(checkNamespace(namespace, "namespace"));
  const scheme = schemeOf(url);
  if (isBucketUrl(url)) return bucketUrlIn(url, place);
  if (scheme === "sqlite") return `sqlite:${fileOfNamespace(sqlitePath(url), namespace)}`;
  const parameter = /^postgres(ql)?$/.test(scheme)
    ? "schema"
    : /^(redis|valkey)s?$/.test(scheme)
      ? "prefix"
      : null;
  if (parameter === null) return url;
  const [, query = ""] = url.split("?", 2);
  if (new URLSearchParams(query).has(parameter)) throw twoPlaces(namespace, parameter);
  return `${url}${url.includes("?") ? "&" : "?"}${parameter}=${place}`;
}

function twoPlaces(namespace: string, word: string): MillraceError {
  return new MillraceError(
    "invalid-option",
    `The namespace ${namespace} and a ${word} are both given, and either says where the store lives; give one of them.`,
  );
}

/** Options that the named store would ignore are refused. */
function onlyFor(
  store: string,
  options: StoreOptions,
  own: "sqlite" | "postgres" | "redis" | "bucket",
): void {
  for (const key of ["sqlite", "postgres", "redis", "bucket"] as const) {
    if (options[key] !== undefined && key !== own)
      throw new MillraceError("invalid-option", `open: ${key} is not an option of the store ${store}.`);
  }
}

function callTimeoutOf(timeout: Duration | undefined, store: string): { callTimeoutMs?: number } {
  return timeout === undefined ? {} : { callTimeoutMs: durationMs(timeout, `open: ${store}.callTimeout`) };
}

function durabilityOf({ durability }: StoreOptions): Pick<StoreOptions, "durability"> {
  return durability === undefined ? {} : { durability };
}

/** `sqlite:jobs.db`, `sqlite:./jobs.db`, `sqlite:///var/jobs.db`, `sqlite::memory:`. */
export function sqlitePath(url: string): string {
  const rest = url.slice("sqlite:".length);
  const path = rest.startsWith("//") ? rest.slice(2) : rest;
  if (path === "")
    throw new MillraceError(
      "unknown-store",
      'The URL names no file; write "sqlite:./jobs.db" or "sqlite::memory:".',
    );
  const [file = "", parameters] = path.split("?", 2);
  if (parameters !== undefined) {
    const names = [...new URLSearchParams(parameters).keys()].map((name) => JSON.stringify(name)).join(", ");
    const sentence = `The URL of ${file} has parameters (${names}), but a sqlite URL takes none. Pass durability and sqlite.executor as options to open.`;
    throw new MillraceError("invalid-option", sentence);
  }
  return path;
}
