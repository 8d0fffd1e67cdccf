/**
 * The programs that the tests use and that npm does not provide: where they are found, and how they are installed.
 * `npm test` calls `installTestPrograms` once, before anything is tested. The test files only look for a program, and
 * fail with the advice of its row if it is missing.
 */
import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { withSetupLock } from "./setup-lock.mjs";

export interface TestProgram {
  /** Any one of them is enough. An absolute path is looked up as it is. */
  readonly binaries: readonly string[];
  readonly debian: string;
  readonly homebrew: readonly string[];
  /** The tests that fail without it. */
  readonly tests: string;
}

export const testPrograms = {
  redis: {
    binaries: ["redis-server", "valkey-server"],
    debian: "redis-server",
    homebrew: ["redis", "valkey"],
    tests: "all on Redis: src/stores/redis, test/chaos/redis-*, and the Redis cases of the other suites",
  },
  pgbouncer: {
    binaries: ["pgbouncer"],
    debian: "pgbouncer",
    homebrew: ["pgbouncer"],
    tests:
      "test/chaos/postgres-pgbouncer.test.ts and one case of src/stores/postgres/connection/listener.test.ts",
  },
  python: {
    binaries: ["python3"],
    debian: "python3",
    homebrew: ["python"],
    tests: "test/sandbox/python.test.ts and one case of test/examples/examples.test.ts",
  },
} as const satisfies Record<string, TestProgram>;

/** What decides how a program gets onto a machine. */
export interface Machine {
  readonly hasApt: boolean;
  readonly isRoot: boolean;
  readonly isMac: boolean;
}

const aptGet = "/usr/bin/apt-get";
const thisMachine: Machine = {
  hasApt: existsSync(aptGet),
  isRoot: process.getuid?.() === 0,
  isMac: process.platform === "darwin",
};

/** PATH comes first. It often lacks /usr/sbin, and Homebrew's folders if the run was not started by a login shell. */
function foldersOf({ homebrew }: TestProgram): string[] {
  const path = (process.env["PATH"] ?? "").split(":").filter((folder) => folder !== "");
  const brewed = ["/opt/homebrew", "/usr/local"].flatMap((prefix) => [
    `${prefix}/bin`,
    ...homebrew.map((formula) => `${prefix}/opt/${formula}/bin`),
  ]);
  return [...path, "/usr/bin", "/usr/sbin", ...brewed];
}

/** The first of each binary that is found. */
export function findAll(program: TestProgram): string[] {
  const folders = foldersOf(program);
  return program.binaries.flatMap(
    (binary) => folders.map((folder) => resolve(folder, binary)).find((path) => existsSync(path)) ?? [],
  );
}

/** @throws with the advice how to install it. */
export function find(program: TestProgram): string {
  const [found] = findAll(program);
  if (found === undefined) throw new Error(adviceFor(program));
  return found;
}

/** What is missing, how to get it, and which tests fail without it. */
export function adviceFor(program: TestProgram, machine: Machine = thisMachine): string {
  const names = program.binaries.join(" or ");
  const how = howToInstall([program], machine) ?? `install ${names}`;
  return `${names} is missing. To get it: ${how}. Tests that fail without it: ${program.tests}.`;
}

/** The command; undefined on a system whose package manager we do not know. */
function howToInstall(programs: readonly TestProgram[], machine: Machine): string | undefined {
  const { hasApt, isRoot, isMac } = machine;
  if (isMac) return `brew install ${programs.map(({ homebrew }) => homebrew[0]).join(" ")}`;
  if (!hasApt) return undefined;
  return `${isRoot ? "" : "sudo "}apt-get install ${programs.map(({ debian }) => debian).join(" ")}`;
}

export interface Installation {
  readonly programs: readonly TestProgram[];
  readonly machine: Machine;
  readonly isFound: (program: TestProgram) => boolean;
  /** Resolves when the packages are installed, or could not be. */
  readonly install: (packages: readonly string[], addProcess: (pid: number) => void) => Promise<void>;
  readonly lockFolder: string;
  readonly say: (line: string) => void;
}

/** The lock lies outside the clone because two clones may be tested at once; TMPDIR may differ between them. */
const thisInstallation: Installation = {
  programs: Object.values(testPrograms),
  machine: thisMachine,
  isFound: (program) => findAll(program).length > 0,
  install: aptInstall,
  lockFolder: "/tmp",
  say,
};

/** Installs what is missing if root can do it by apt-get. Then says what is still missing, one line each. */
export async function installTestPrograms(given: Partial<Installation> = {}): Promise<void> {
  const { programs, machine, isFound, install, lockFolder, say } = { ...thisInstallation, ...given };
  const missing = (): TestProgram[] => programs.filter((program) => !isFound(program));
  if (missing().length > 0 && machine.hasApt && machine.isRoot)
    await withSetupLock(
      lockFolder,
      async (addProcess) => {
        // The run that held the lock before may have installed them.
        const wanted = missing();
        if (wanted.length === 0) return;
        const packages = wanted.map(({ debian }) => debian);
        const byHand = howToInstall(wanted, machine);
        say(
          `installing ${packages.join(", ")} for the tests (once, about half a minute; by hand: ${byHand})`,
        );
        await install(packages, addProcess);
      },
      (pid) => say(`waiting for another run that installs programs (process ${pid ?? "unknown"})`),
    );
  for (const program of missing()) say(adviceFor(program, machine));
}

/**
 * Debian asks policy-rc.d before it starts the service of a package: none shall start here. The file only applies while
 * the shell that wrote it lives, because a killed shell cannot delete it. If the first install fails, the package lists
 * may be old or absent.
 */
const aptScript = `
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\\nkill -0 %s 2>/dev/null && exit 101\\nexit 0\\n' $$ > $policy
    chmod 755 $policy
  fi
  install() { "$apt" install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"; }
  install "$@" || { "$apt" update -q; install "$@"; }`;

/**
 * The shell has a session of its own and writes to a file: a run that is interrupted neither breaks off dpkg halfway
 * nor leaves the policy behind. The lock names the shell, so that the next run waits for it.
 */
async function aptInstall(packages: readonly string[], addProcess: (pid: number) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-apt-"));
  const output = join(folder, "output");
  const file = openSync(output, "w");
  const child = spawn("/bin/sh", ["-c", aptScript, "sh", ...packages], {
    detached: true,
    env: { ...process.env, apt: aptGet, DEBIAN_FRONTEND: "noninteractive" },
    stdio: ["ignore", file, file],
  });
  closeSync(file);
  if (child.pid !== undefined) addProcess(child.pid);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0)
    say(`apt-get failed (exit ${code}):\n${readFileSync(output, "utf8").slice(-2000).trimEnd()}`);
  rmSync(folder, { recursive: true, force: true });
}

function say(line: string): void {
  process.stderr.write(`millrace set-up: ${line}\n`);
}
