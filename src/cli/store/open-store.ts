/**
 * The store a command works on: `--store`, else MILLRACE_STORE, else that of the config file, in `--namespace`, else
 * MILLRACE_NAMESPACE, opened with the options of the config file. Commands that read or operate refuse a URL without a
 * store, because a typing mistake must neither make an empty store nor look like one.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { MillraceOptions } from "../../client/millrace-options.ts";
import { MillraceError } from "../../model/error.ts";
import { openMillraceOn, sqlitePath, urlInNamespace } from "../../open.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import type { Call } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { readStoreVersion } from "./store-version.ts";

type StoreCall = Pick<Call, "platform" | "store" | "config" | "terminal" | "wantsJson">;

export function storeUrl({ store, config, terminal }: StoreCall): string {
  const { store: configured, open = {} } = config?.config ?? {};
  const url = store.store?.trim() || terminal.readEnv("MILLRACE_STORE") || configured;
  const namespace = store.namespace?.trim() || terminal.readEnv("MILLRACE_NAMESPACE") || open.namespace;
  if (url !== undefined) return namespace === undefined ? url : urlInNamespace(url, namespace);
  throw new MillraceError(
    "unknown-store",
    "No store is named: give --store sqlite:./jobs.db, set MILLRACE_STORE, or write a millrace.config.ts.",
  );
}

/** The URL of a store that is there already; else the command is refused. */
export async function existingStoreUrl(call: StoreCall): Promise<string> {
  const url = storeUrl(call);
  if (/^sqlite::memory:$/i.test(url) || !/^(sqlite|postgres(ql)?|(redis|valkey)s?):/i.test(url)) return url;
  const { from } = await readStoreVersion(call.platform, url);
  if (from > 0) return url;
  throw new MillraceError(
    "store-missing",
    `There is no store of Millrace at ${shownUrl(url)}. millrace migrate, enqueue and work make one; or name another.`,
  );
}

/**
 * The URL without user and password. A Redis URL may name several hosts, so it is not always one that the platform can
 * parse.
 */
export function shownUrl(url: string): string {
  if (/^sqlite:/i.test(url)) return JSON.stringify(sqlitePath(url));
  const [, scheme = "", address = "", query = ""] =
    /^(\w+:\/\/)(?:[^/?#]*@)?([^?#]*)\??([^#]*)/.exec(url) ?? [];
  const parameters = new URLSearchParams(query);
  const parts = ["schema", "prefix"].flatMap((name) => {
    const value = parameters.get(name);
    return value === null ? [] : [` in the ${name} ${value}`];
  });
  return `${scheme}${address}${parts.join("")}`;
}

/**
 * A command must never take a bucket over from the process that writes to it, so it reads a view of it unless it is
 * asked to take it over.
 */
export function bucketOptions({ store }: StoreCall, url: string): Pick<MillraceOptions, "bucket"> {
  if (!isBucketUrl(url)) return {};
  return { bucket: store.take ? { whenHeld: "take" } : { view: true } };
}

const storeKinds = ["sqlite", "postgres", "redis"] as const;

/**
 * The options of the config file for this store. A config may serve a file here and a server there, so those of other
 * kinds of stores are left out; the URL says the namespace already.
 */
export function configuredOptions({ config }: StoreCall, url: string): MillraceOptions {
  const { namespace: _inUrl, ...configured } = config?.config.open ?? {};
  const kind = /^postgres/i.test(url) ? "postgres" : /^(redis|valkey)/i.test(url) ? "redis" : "sqlite";
  for (const other of storeKinds)
    if (other !== kind || isBucketUrl(url)) Reflect.deleteProperty(configured, other);
  return configured;
}

/** Opens a Millrace, lets the command use it, and closes it however the command ends. */
export async function withMillrace<Answer>(
  call: StoreCall,
  url: string,
  use: (mill: Millrace) => Promise<Answer>,
  options: MillraceOptions = {},
): Promise<Answer> {
  const mill = await openMillraceOn(call.platform, url, {
    ...configuredOptions(call, url),
    ...bucketOptions(call, url),
    ...options,
  });
  try {
    if (isBucketUrl(url) && !call.wantsJson) {
      const { view } = await mill.describe();
      if (view !== undefined) call.terminal.writeErr(`millrace: ${escapeText(view.sentence)}\n`);
    }
    return await use(mill);
  } finally {
    await mill.close();
  }
}
