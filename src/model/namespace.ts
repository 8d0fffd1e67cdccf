/**
 * A namespace: the name under which a system lives apart from others on the same server or beside the same file. Each
 * store has its own word for it; this file says what it becomes there.
 */
import { MillraceError } from "./error.ts";

/** Lower case, because it is a part of a file's name and some file systems ignore case. */
const pattern = /^[a-z][a-z0-9_]{0,39}$/;

export function checkNamespace(namespace: unknown, what: string): string {
  if (typeof namespace === "string" && pattern.test(namespace)) return namespace;
  throw new MillraceError(
    "invalid-option",
    `${what} must be a plain name: small letters, digits and _, at most 40, beginning with a letter.`,
  );
}

/** The schema on Postgres, the prefix on Redis: never one that the application may have for its own tables or keys. */
export function placeOfNamespace(namespace: string): string {
  return `millrace_${namespace}`;
}

/** `./jobs.db` is `./jobs.billing.db` in the namespace `billing`. A store in memory is apart from all others anyway. */
export function fileOfNamespace(path: string, namespace: string): string {
  if (path === ":memory:") return path;
  const name = path.slice(path.search(/[^/\\]*$/));
  const end = /.\.[^.]+$/.exec(name) === null ? "" : name.slice(name.lastIndexOf("."));
  return `${path.slice(0, path.length - end.length)}.${namespace}${end}`;
}
