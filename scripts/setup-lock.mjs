// One set-up at a time in a folder: the clone, whose packages npm installs, or the machine's temporary folder while
// apt-get installs programs for the tests. The lock is a folder (mkdir is atomic) that names its processes: the holder
// and the installer it started, which may outlive a killed holder and would still be writing. The holder also touches
// it every second, for waiters who cannot see its processes. A dead lock is renamed to a name made of its own token; of
// two waiters that find the same dead lock, the second one's rename fails on the folder that the first left behind, so
// it can never carry off a living lock. Runs on Node 20 without dependencies.
import { randomUUID } from "node:crypto";
import {
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const LOCK = ".millrace-setup.lock";
const HEARTBEAT_MS = 1_000;
const POLL_MS = 200;
const SILENCE_MAX_MS = 300_000;
const GRAVE_AGE_MAX_MS = 3_600_000;

/**
 * Runs `work` while holding the set-up lock of `root`; `onWait` is called once if somebody else holds it. `work` is
 * given a function that adds the process id of a child to the lock.
 *
 * @template T
 * @param {string} root
 * @param {(addProcess: (pid: number) => void) => Promise<T>} work
 * @param {(pid: number | undefined) => void} onWait
 * @returns {Promise<T>}
 */
export async function withSetupLock(root, work, onWait) {
  const lock = join(root, LOCK);
  const token = randomUUID();
  await acquire(lock, token, onWait);
  const heartbeat = setInterval(() => touch(join(lock, "owner")), HEARTBEAT_MS);
  const release = () => {
    clearInterval(heartbeat);
    if (readOwner(lock)?.token === token) rmSync(lock, { recursive: true, force: true });
  };
  process.once("exit", release);
  try {
    return await work((pid) => writeOwner(lock, { token, pids: [process.pid, pid] }));
  } finally {
    process.off("exit", release);
    release();
    clearGraves(root);
  }
}

async function acquire(lock, token, onWait) {
  let seen = "";
  let seenSince = performance.now();
  let told = false;
  for (;;) {
    try {
      mkdirSync(lock);
      writeOwner(lock, { token, pids: [process.pid] });
      return;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const owner = readOwner(lock);
    const state = `${owner?.token} ${lastTouch(lock)}`;
    if (state !== seen) {
      seen = state;
      seenSince = performance.now();
    }
    const silentMs = performance.now() - seenSince;
    if (isDead(owner) || silentMs > SILENCE_MAX_MS) {
      bury(lock, owner?.token ?? "unnamed");
      continue;
    }
    if (!told) onWait(owner?.pids[0]);
    told = true;
    await sleep(POLL_MS);
  }
}

/** Written beside and renamed, so that no waiter reads half of it. */
function writeOwner(lock, { token, pids }) {
  const draft = join(lock, "draft");
  writeFileSync(draft, JSON.stringify({ token, pids, host: hostname() }));
  renameSync(draft, join(lock, "owner"));
}

function readOwner(lock) {
  try {
    return JSON.parse(readFileSync(join(lock, "owner"), "utf8"));
  } catch {
    return undefined;
  }
}

function lastTouch(lock) {
  try {
    return statSync(join(lock, "owner")).mtimeMs;
  } catch {
    return 0;
  }
}

function touch(path) {
  try {
    utimesSync(path, new Date(), new Date());
  } catch {
    // The lock was taken over after a long pause of this process; its new holder is in charge.
  }
}

function isDead(owner) {
  return owner !== undefined && owner.host === hostname() && !owner.pids.some(isRunning);
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code !== "ESRCH";
  }
}

function bury(lock, token) {
  const grave = `${lock}.${token}`;
  try {
    renameSync(lock, grave);
    // A folder without its owner file would not stop a second rename onto it.
    writeFileSync(join(grave, "buried"), "");
  } catch {
    // Another waiter buried it first, or its holder released it: look again.
  }
}

function clearGraves(root) {
  for (const name of readdirSync(root)) {
    if (!name.startsWith(`${LOCK}.`)) continue;
    const grave = join(root, name);
    try {
      if (Date.now() - statSync(grave).mtimeMs > GRAVE_AGE_MAX_MS)
        rmSync(grave, { recursive: true, force: true });
    } catch {
      // Somebody else cleared it.
    }
  }
}
