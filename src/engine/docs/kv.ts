/** The caller's KV: small versioned documents. In the store they are documents of a kind of their own. */
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { PayloadCoder } from "../../codec/payload.ts";
import type { Doc, DocWrite } from "../../store/records.ts";
import { callKeys, checkCallOptions, withinLimit } from "../calls/call-limit.ts";
import type { CallOptions } from "../calls/call-limit.ts";
import { allDocs } from "./all-docs.ts";
import type { Needs } from "../services.ts";

type KvNeeds = Needs<"store" | "platform" | "coder">;

export const kvKind = "kv";

export interface KvEntry<Value = unknown> {
  readonly key: string;
  readonly value: Value;
  readonly version: number;
}

export interface KvPutOptions extends CallOptions {
  /** Compare and set: the entry must have this version; 0 means that it must be absent. */
  version?: number;
  /** The entry disappears after this time. */
  ttl?: Duration;
}

/** A write of the KV in the step that makes a job: `{ key, value }` puts an entry, with `delete: true` it goes. */
export type KvWrite =
  | ({ readonly key: string; readonly value: unknown; readonly delete?: undefined } & Pick<
      KvPutOptions,
      "version" | "ttl"
    >)
  | ({ readonly key: string; readonly delete: true } & Pick<KvPutOptions, "version">);

export function kvPut(
  key: string,
  body: string | null,
  options: { readonly version?: number; readonly ttlMs?: number },
): DocWrite {
  const { version, ttlMs } = options;
  return {
    kind: kvKind,
    id: key,
    body,
    guard: version === undefined ? "any" : version === 0 ? "absent" : { version },
    expiresInMs: ttlMs ?? null,
  };
}

/** The options of a put and a delete. A direct call takes `callKeys` too; an effect of a handler does not. */
export const kvPutKeys = ["version", "ttl"] as const;
export const kvDeleteKeys = ["version"] as const;

export function readKvPutOptions(
  options: KvPutOptions | undefined,
  known: readonly string[],
): { version?: number; ttlMs?: number } {
  if (options === undefined) return {};
  const { version, ttl } = checkOptions(options, "kv options", known);
  return {
    ...(version === undefined
      ? {}
      : { version: checkWhole(version, "kv version", 0, Number.MAX_SAFE_INTEGER) }),
    ...(ttl === undefined ? {} : { ttlMs: durationMs(ttl, "kv ttl") }),
  };
}

/**
 * The writes of an enqueue, as the store takes them. Each key may occur once, so that the guards of all writes hold for
 * the entries as they were before.
 */
export function readKvWrites(
  coder: PayloadCoder,
  lists: readonly unknown[],
  what: string,
): readonly DocWrite[] {
  const puts = lists.flatMap((list) => {
    if (!Array.isArray(list)) throw invalidOption(`${what}: kv must be a list of { key, value }.`);
    return list.map((write: unknown) => readKvWrite(coder, write, `${what}: kv`));
  });
  if (puts.length > storeLimits.callItemsMax)
    throw invalidOption(`${what}: kv takes at most ${storeLimits.callItemsMax} writes in one step.`);
  const keys = new Set<string>();
  for (const { id } of puts) {
    if (keys.has(id)) throw invalidOption(`${what}: kv writes ${JSON.stringify(id)} twice.`);
    keys.add(id);
  }
  return puts;
}

function readKvWrite(coder: PayloadCoder, write: unknown, what: string): DocWrite {
  const deletes =
    typeof write === "object" && write !== null && "delete" in write && write.delete !== undefined;
  const known = deletes ? ["key", "delete", ...kvDeleteKeys] : ["key", "value", ...kvPutKeys];
  const { key, value, delete: isDelete, ...options } = checkOptions(write, what, known);
  checkName(key, `${what} key`);
  if (deletes && isDelete !== true) throw invalidOption(`${what}: delete must be true.`);
  if (!deletes && value === undefined)
    throw invalidOption(`${what}: give a value for ${JSON.stringify(key)}, or delete: true.`);
  const body = deletes ? null : coder.encode(value, "kv value");
  return kvPut(key as string, body, readKvPutOptions(options, kvPutKeys));
}

export class Kv {
  readonly #needs: KvNeeds;

  constructor(needs: KvNeeds) {
    this.#needs = needs;
  }

  async get<Value = unknown>(key: string, limit?: CallOptions): Promise<Value | undefined> {
    return (await this.getEntry<Value>(key, limit))?.value;
  }

  async getEntry<Value = unknown>(key: string, limit?: CallOptions): Promise<KvEntry<Value> | undefined> {
    checkName(key, "kv key");
    checkCallOptions(limit, "kv get");
    const { platform, store } = this.#needs;
    const run = (): ReturnType<typeof store.readDocs> => store.readDocs({ kind: kvKind, ids: [key] });
    const { docs } = await withinLimit(limit, { platform, what: "kv get", isWrite: false, run });
    return docs[0] === undefined ? undefined : this.#entry<Value>(docs[0]);
  }

  /** @returns the entry's new version. A version that does not match is a `version-conflict`. */
  async put(key: string, value: unknown, options?: KvPutOptions): Promise<number> {
    checkName(key, "kv key");
    const body = this.#needs.coder.encode(value, "kv value");
    return this.#write(kvPut(key, body, readKvPutOptions(options, [...kvPutKeys, ...callKeys])), options);
  }

  async delete(key: string, options?: Omit<KvPutOptions, "ttl">): Promise<void> {
    checkName(key, "kv key");
    await this.#write(kvPut(key, null, readKvPutOptions(options, [...kvDeleteKeys, ...callKeys])), options);
  }

  /** All entries whose key starts with the prefix, in byte order. */
  async *scan<Value = unknown>(prefix: string): AsyncGenerator<KvEntry<Value>, void, undefined> {
    if (prefix !== "") checkName(prefix, "kv prefix");
    for await (const doc of allDocs(this.#needs.store, { kind: kvKind, prefix }))
      yield this.#entry<Value>(doc);
  }

  async #write(put: DocWrite, limit: CallOptions | undefined): Promise<number> {
    const { platform, store } = this.#needs;
    const run = (): ReturnType<typeof store.putDocs> => store.putDocs([put]);
    const [answer] = await withinLimit(limit, { platform, what: "kv put", isWrite: true, run });
    if (answer?.kind === "ok") return answer.version;
    const present = answer?.kind === "changed" ? answer.version : 0;
    const found = present === 0 ? "is absent" : `has version ${present}`;
    throw new MillraceError(
      "version-conflict",
      `The entry ${JSON.stringify(put.id)} ${found}; read it again.`,
    );
  }

  #entry<Value>(doc: Doc): KvEntry<Value> {
    return {
      key: doc.id,
      value: this.#needs.coder.decode(doc.body) as Value,
      version: doc.version,
    };
  }
}
