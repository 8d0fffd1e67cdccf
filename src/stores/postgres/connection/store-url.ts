/**
 * Reads the URL that names a store on Postgres: the driver's own URL, with additional parameters of Millrace, which are
 * removed before the driver gets it.
 */
import { MillraceError } from "../../../model/error.ts";

export interface StoreUrl {
  /** The URL without Millrace's parameters, for the driver. */
  readonly url: string;
  readonly schema: string | null;
  /** Null if the URL says "none", undefined if it has no such parameter. */
  readonly listenUrl: string | null | undefined;
}

const defaultSchema = "millrace";
const own = ["schema", "listenUrl"] as const;
/** The parameters on which the driver acts. It silently ignores any other. */
const driversOwn = [
  ...["host", "port", "user", "password", "application_name", "fallback_application_name", "client_encoding"],
  ...["ssl", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat", "options"],
  ...["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"],
];
const known: readonly string[] = [...own, ...driversOwn];

export function readStoreUrl(url: string | undefined): StoreUrl {
  if (url === undefined || !isPostgresUrl(url)) {
    const sentence = 'A Postgres store is named by a URL such as "postgres://user@host:5432/database".';
    throw new MillraceError("unknown-store", sentence);
  }
  const parsed = new URL(url);
  const unknown = [...parsed.searchParams.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) {
    const sentence = `A Postgres URL has no parameter ${JSON.stringify(unknown)}. Known ones: ${known.join(", ")}.`;
    throw new MillraceError("invalid-option", sentence);
  }
  const [schema = null, listen] = own.map((name) => parsed.searchParams.get(name) ?? undefined);
  if (schema === null && listen === undefined) return { url, schema, listenUrl: undefined };
  for (const name of own) parsed.searchParams.delete(name);
  const listenUrl = listen === "none" ? null : listen;
  return { url: parsed.href, schema, listenUrl };
}

function isPostgresUrl(url: string): boolean {
  return URL.canParse(url) && /^postgres(ql)?:$/.test(new URL(url).protocol);
}

export function checkSchema(schema: string | null = null): string {
  if (schema === null) return defaultSchema;
  if (/^[A-Za-z_][A-Za-z0-9_]{0,49}$/.test(schema)) return schema;
  const sentence =
    "schema must be a plain name: letters, digits and _, at most 50, not beginning with a digit.";
  throw new MillraceError("invalid-option", sentence);
}

/** Answers the URL for the driver. */
export function checkListenUrl(listenUrl: string): string {
  if (isPostgresUrl(listenUrl)) return readStoreUrl(listenUrl).url;
  const sentence = 'listenUrl must be a URL such as "postgres://user@host:5432/database".';
  throw new MillraceError("invalid-option", sentence);
}

/** The database's name for error messages, without the password. */
export function nameOf(url: string | undefined): string {
  if (url === undefined) return "the database of the given pool";
  const { hostname, port, pathname } = new URL(url);
  return `the database ${pathname.slice(1) || "of the user"} at ${hostname || "the default host"}${port === "" ? "" : `:${port}`}`;
}
