// What the set-up of the tests says and does about programs that are missing; apt-get itself is not called here.
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { hangMs } from "../test/support/hang-ms.ts";
import { adviceFor, find, findAll, installTestPrograms, testPrograms } from "./test-programs.ts";
import type { Installation } from "./test-programs.ts";

const { redis, pgbouncer, python } = testPrograms;
const debian = { hasApt: true, isRoot: true, isMac: false };

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-programs-"))));
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

async function run(given: Partial<Installation>): Promise<{ said: string[]; installed: string[] }> {
  const said: string[] = [];
  const installed: string[] = [];
  await installTestPrograms({
    machine: debian,
    isFound: ({ debian: name }) => installed.includes(name),
    install: async (packages) => void installed.push(...packages),
    lockFolder: folder,
    say: (line) => said.push(line),
    ...given,
  });
  return { said, installed };
}

describe("looking for a program", () => {
  test("finds one binary of each name, first in PATH", () => {
    for (const name of ["one", "other"]) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, "valkey-server"), "");
      chmodSync(join(folder, name, "valkey-server"), 0o755);
    }
    vi.stubEnv("PATH", `${join(folder, "one")}:${join(folder, "other")}`);
    expect(findAll({ ...redis, binaries: ["no-such-server", "valkey-server"] })).toEqual([
      join(folder, "one", "valkey-server"),
    ]);
  });

  test("takes an absolute path as it is", () => {
    expect(find({ ...redis, binaries: [process.execPath] })).toBe(process.execPath);
  });

  test("fails with the advice if none is found", () => {
    expect(() => find({ ...redis, binaries: ["no-such-server"] })).toThrow(/^no-such-server is missing\. To/);
  });
});

describe("the advice", () => {
  test.each([
    ["on Debian as root", debian, "apt-get install redis-server"],
    ["on Debian as another user", { ...debian, isRoot: false }, "sudo apt-get install redis-server"],
    ["on macOS", { hasApt: false, isRoot: false, isMac: true }, "brew install redis"],
    [
      "on another system",
      { hasApt: false, isRoot: true, isMac: false },
      "install redis-server or valkey-server",
    ],
  ])("%s is one line", (_where, machine, how) => {
    expect(adviceFor(redis, machine)).toBe(
      `redis-server or valkey-server is missing. To get it: ${how}. Tests that fail without it: ${redis.tests}.`,
    );
  });
});

describe("the set-up", () => {
  test("says nothing if nothing is missing", async () => {
    expect(await run({ isFound: () => true })).toEqual({ said: [], installed: [] });
  });

  test("installs all that is missing in one call, and says so", async () => {
    const wanted = ["redis-server", "pgbouncer"];
    let calls = 0;
    const { said } = await run({
      isFound: (program) => program === python || calls > 0,
      install: async (packages) => {
        calls += 1;
        expect(packages).toEqual(wanted);
      },
    });
    expect(calls).toBe(1);
    expect(said).toEqual([
      "installing redis-server, pgbouncer for the tests (once, about half a minute; by hand: apt-get install redis-server pgbouncer)",
    ]);
  });

  test("says what is still missing after a failed installation", async () => {
    const { said } = await run({ programs: [pgbouncer], install: async () => {} });
    expect(said).toEqual([expect.stringMatching(/^installing/), adviceFor(pgbouncer, debian)]);
  });

  test.each([
    ["not as root", { ...debian, isRoot: false }],
    ["without apt-get", { ...debian, hasApt: false }],
  ])("%s says one line for each that is missing, and installs nothing", async (_where, machine) => {
    expect(await run({ machine, isFound: () => false })).toEqual({
      said: [redis, pgbouncer, python].map((program) => adviceFor(program, machine)),
      installed: [],
    });
  });

  test("of two runs at once one installs, and the other waits for it", async () => {
    // The installation lasts until the other process waits.
    const script = `
      import { appendFileSync, existsSync, writeFileSync } from "node:fs";
      import { setTimeout as sleep } from "node:timers/promises";
      import { installTestPrograms } from ${JSON.stringify(new URL("test-programs.ts", import.meta.url).href)};
      await installTestPrograms({
        machine: ${JSON.stringify(debian)},
        lockFolder: ".",
        isFound: () => existsSync("installed"),
        say: (line) => line.startsWith("waiting") && writeFileSync("waits", ""),
        install: async () => {
          appendFileSync("calls", "install\\n");
          while (!existsSync("waits")) await sleep(10);
          writeFileSync("installed", "");
        },
      });`;
    const start = (): Promise<unknown> =>
      promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
        cwd: folder,
        timeout: hangMs,
      });
    await Promise.all([start(), start()]);
    expect(readFileSync(join(folder, "calls"), "utf8")).toBe("install\n");
  });
});
