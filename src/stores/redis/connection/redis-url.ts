/**
 * How a Redis store is named: one server, or the first servers of a cluster.
 *
 *  redis://user:password@host:6379/0?prefix=name&partitions=4
 *  redis://user:password@host-1:6379,host-2:6379/?cluster=true
 *
 * `rediss:` for TLS; `valkey:` and `valkeys:` mean the same. What the driver does not know is taken out; a parameter
 * that neither knows is refused, because a misspelt one would do nothing and say nothing.
 */
import { MillraceError } from "../../../model/error.ts";
import { invalidOption } from "../../../model/option.ts";

export interface RedisUrl {
  /** One per server, for the driver. */
  readonly urls: readonly string[];
  readonly prefix: string | null;
  readonly partitions: string | null;
  readonly isCluster: boolean;
}

const ownParameters = ["prefix", "partitions", "cluster"];
/** Of the drivers' options, those that say how to reach the server. The others are this store's own business. */
const driverParameters = ["family", "connectTimeout", "keepAlive", "noDelay"];

export function readRedisUrl(url: unknown): RedisUrl {
  const parts =
    typeof url === "string" ? /^((?:rediss?|valkeys?):\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/i.exec(url) : null;
  if (parts === null) throw unreadable();
  const [, begin, hosts, end] = parts as unknown as [string, string, string, string];
  const parsed = hosts.split(",").map((host) => {
    const one = `${begin.replace(/^valkey/i, "redis")}${host}${end}`;
    if (!URL.canParse(one) || (host === "" && hosts !== "")) throw unreadable();
    return new URL(one);
  });
  const [first] = parsed as [URL];
  checkDatabase(first);
  checkParameters(first);
  const cluster = first.searchParams.get("cluster");
  if (cluster !== null && cluster !== "true" && cluster !== "false")
    throw invalidOption("The parameter cluster of the URL must be true or false.");
  if (parsed.length > 1 && cluster !== "true")
    throw invalidOption(
      "The URL names several servers: add ?cluster=true if they are a cluster, or name the primary alone.",
    );
  const [prefix, partitions] = [first.searchParams.get("prefix"), first.searchParams.get("partitions")];
  const urls = parsed.map((one) => {
    for (const name of ownParameters) one.searchParams.delete(name);
    return one.href;
  });
  return { urls, prefix, partitions, isCluster: cluster === "true" };
}

function checkDatabase({ pathname }: URL): void {
  if (/^\/?\d*$/.test(pathname)) return;
  throw invalidOption(`The path of the URL must be the number of a database, not "${pathname.slice(1)}".`);
}

function checkParameters({ searchParams }: URL): void {
  for (const name of new Set(searchParams.keys())) {
    if (ownParameters.includes(name)) {
      if (searchParams.getAll(name).length === 1) continue;
      throw invalidOption(`The parameter ${name} of the URL is given twice.`);
    }
    if (driverParameters.includes(name)) continue;
    const known = [...ownParameters, ...driverParameters].join(", ");
    throw invalidOption(
      `The URL has an unknown parameter ${JSON.stringify(name)}. Known ones are: ${known}.`,
    );
  }
}

function unreadable(): MillraceError {
  const sentence = 'A Redis store is named by a URL such as "redis://user:password@host:6379/0".';
  return new MillraceError("unknown-store", sentence);
}

/** For error messages: where, but never the password. */
export function nameOf({ urls, isCluster }: RedisUrl): string {
  const addresses = urls.map(addressOf).join(", ");
  return isCluster ? `The cluster of ${addresses}` : `The server ${addresses}`;
}

export function addressOf(url: string): string {
  const { hostname, port } = new URL(url);
  return `${hostname || "localhost"}:${port || "6379"}`;
}
