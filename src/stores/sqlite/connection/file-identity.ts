/**
 * Whether the path still names the file that is open. SQLite goes on writing to a file that was deleted or replaced
 * under it, and everything that it acknowledges from then on is lost with the last connection. So device and inode are
 * compared, at most once a second, before a call is run: whatever happens to the file is noticed with the first call
 * a second later, and from then on every call is refused.
 *
 * Not on Windows, where an open file cannot be deleted and network drives number their files anew.
 */
import { statSync } from "node:fs";
import { sep } from "node:path";
import { MillraceError } from "../../../model/error.ts";

export interface FileIdentity {
  /** Throws store-replaced once the path names another file, or none. `now` is any clock in milliseconds. */
  check(now: number): void;
}

const lookMs = 1000;
const isWindows = sep === "\\";

/** Right after the file was opened. Null where files have no identity to compare. */
export function openFileIdentity(path: string, now: number): FileIdentity | null {
  if (isWindows) return null;
  const opened = identityOf(path);
  let lookedAt = now;
  let found = opened;
  return {
    check(at) {
      if (found === opened) {
        // A clock that was set back must not end the looks.
        if (Math.abs(at - lookedAt) < lookMs) return;
        lookedAt = at;
        found = identityOf(path);
      }
      if (found !== opened) throw replaced(path, found);
    },
  };
}

function identityOf(path: string): string | null {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? null : `${stat.dev}:${stat.ino}`;
}

function replaced(path: string, found: string | null): MillraceError {
  const what = found === null ? "deleted or moved away" : "replaced by another file";
  return new MillraceError(
    "store-replaced",
    `${path} was ${what} while this process had it open. Nothing of this call was written, and nothing more will be; what was acknowledged in the last second may be lost. Put the file back and open the store again.`,
  );
}
