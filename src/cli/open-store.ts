/**
 * The store a command works on: `--store`, else MILLRACE_STORE. Commands that only look or operate refuse a file that is not there,
 * because a typing mistake must not leave an empty database behind.
 */
import { existsSync } from "node:fs";
import type { Millrace } from "../client/millrace.ts";
import type { MillraceOptions } from "../client/millrace-options.ts";
import { MillraceError } from "../model/error.ts";
import { openMillraceOn, sqlitePath } from "../open.ts";
import type { Call } from "./command.ts";

export function storeUrl({ options, terminal }: Call): string {
  const url = options.get("store")?.trim() || terminal.readEnv("MILLRACE_STORE");
  if (url !== undefined) return url;
  throw new MillraceError(
    "unknown-store",
    "No store is named: give --store sqlite:./jobs.db or set MILLRACE_STORE.",
  );
}

export function existingStoreUrl(call: Call): string {
  const url = storeUrl(call);
  if (!/^sqlite:/i.test(url)) return url;
  const path = sqlitePath(url);
  if (path === ":memory:" || existsSync(path)) return url;
  throw new MillraceError(
    "store-unavailable",
    `${JSON.stringify(path)} does not exist; millrace work and millrace enqueue make it, or name another file.`,
  );
}

/** Opens, lets the command use it, and closes whatever comes. */
export async function withMillrace<Answer>(
  call: Call,
  url: string,
  use: (mill: Millrace) => Promise<Answer>,
  options: MillraceOptions = {},
): Promise<Answer> {
  const mill = await openMillraceOn(call.platform, url, options);
  try {
    return await use(mill);
  } finally {
    await mill.close();
  }
}
