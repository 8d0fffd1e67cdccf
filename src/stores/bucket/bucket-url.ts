/**
 * URLs of buckets:
 *
 *   s3://bucket/prefix      az://container/prefix?account=name     bucket:prefix  (the caller's own four verbs)
 *   gs://bucket/prefix      file:///folder
 */
import { MillraceError } from "../../model/error.ts";

export interface BucketPlace {
  readonly scheme: "file" | "s3" | "gs" | "az" | "bucket";
  /** The bucket, the container or the folder; "" for the caller's own objects. */
  readonly name: string;
  /** Before each name: "" or a path that ends with a slash. */
  readonly prefix: string;
  /** Of Azure, if the URL names it. */
  readonly account: string | null;
}

export function isBucketUrl(url: string): boolean {
  return /^(file|s3|gs|az|bucket):/i.test(url);
}

export function readBucketUrl(url: string): BucketPlace {
  const [, scheme, rest, query] = /^(\w+):([^?#]*)(?:\?([^#]*))?$/.exec(url) ?? [];
  switch (scheme?.toLowerCase()) {
    case "file":
      return folderOf(url);
    case "bucket":
      if (query === undefined && !rest?.startsWith("//"))
        return { scheme: "bucket", name: "", prefix: prefixOf(rest ?? ""), account: null };
      throw unreadable(url, 'write "bucket:" or "bucket:prefix", without parameters');
    case "s3":
    case "gs":
      if (query !== undefined) throw unreadable(url, "it takes no parameters; give them as options of open");
      return { scheme: scheme.toLowerCase() as "s3" | "gs", ...placeOf(url, rest ?? ""), account: null };
    case "az": {
      const parameters = new URLSearchParams(query);
      if ([...parameters.keys()].some((name) => name !== "account"))
        throw unreadable(url, "its only parameter is account");
      return { scheme: "az", ...placeOf(url, rest ?? ""), account: parameters.get("account") };
    }
    default:
      throw unreadable(url, 'write "s3://bucket/prefix"');
  }
}

/** A part of the bucket for a namespace: a folder under its prefix. */
export function bucketUrlIn(url: string, place: string): string {
  const [address = "", ...query] = url.split("?");
  const bare = address.replace(/\/+$/, "");
  return [`${bare}${bare.endsWith(":") ? "" : "/"}${place}`, ...query].join("?");
}

function placeOf(url: string, rest: string): { name: string; prefix: string } {
  const [, name = "", path = ""] = /^\/\/([^/]*)(.*)$/.exec(rest) ?? [];
  if (/^[\w.-]+$/.test(name)) return { name, prefix: prefixOf(path) };
  throw unreadable(url, 'write "s3://bucket/prefix", without user, password and port');
}

function prefixOf(path: string): string {
  const bare = path.replace(/^\/+|\/+$/g, "");
  return bare === "" ? "" : `${bare}/`;
}

/** `file:///var/jobs`; a relative folder has no place in such a URL. */
function folderOf(url: string): BucketPlace {
  const path = URL.canParse(url) ? decodeURIComponent(new URL(url).pathname) : "";
  if (/^file:\/\/\/[^?#]+$/i.test(url) && path !== "/")
    return { scheme: "file", name: path, prefix: "", account: null };
  throw unreadable(
    url,
    'it names no folder; write "file:///var/lib/jobs", with three slashes and no parameters',
  );
}

/** What stands between the slashes and an "@" may be a password. */
function unreadable(url: string, why: string): MillraceError {
  const shown = JSON.stringify(
    url
      .replace(/\/\/.*@/, "//...@")
      .replace(/\?.*/, "?...")
      .slice(0, 80),
  );
  return new MillraceError("unknown-store", `${shown} is no URL of a bucket: ${why}.`);
}
