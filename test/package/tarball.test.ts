// What a user gets: builds and packs the package, installs the tarball into an empty project without network and
// without scripts, does one job there on a database file, and lets the compiler resolve the shipped types.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";

const root = join(import.meta.dirname, "..", "..");
const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
const folder = mkdtempSync(join(tmpdir(), "millrace-tarball-"));
const staging = join(folder, "staging");
const installed = join(folder, "installed");

/** A user's file: types flow from the definition to the handler and to the result. */
const script = `
import { Millrace, handler, job } from "millrace";

const shape = <T>() => ({
  "~standard": {
    version: 1 as const,
    vendor: "script",
    validate: (value: unknown) => ({ value: value as T }),
    types: undefined as { input: T; output: T } | undefined,
  },
});
const greet = job("greet", { input: shape<{ name: string }>(), result: shape<{ text: string }>() });

const mill = await Millrace.open("sqlite:./jobs.db");
const worker = await mill.work([handler(greet, async ({ input }) => ({ text: "hello " + input.name }))]);
const handle = await mill.enqueue(greet, { name: "miller" });
const result = await handle.result({ timeout: "20s" });
const text: string = result.text;
// @ts-expect-error: the result's type is known, and it has no such field
void result.missing;
await worker.stop();
await mill.close();
console.log(text);
`;

beforeAll(() => {
  mkdirSync(staging);
  mkdirSync(installed);
  // Packed from a copy, so that this test neither uses nor disturbs the dist/ of the working tree.
  for (const name of ["package.json", "src", "README.md", "LICENSE", "CHANGELOG.md"]) {
    cpSync(join(root, name), join(staging, name), { recursive: true });
  }
  run(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", join(staging, "dist")], root);
  run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], staging);
  const tarball = join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "no tarball");
  writeFileSync(join(installed, "package.json"), JSON.stringify({ private: true, type: "module" }));
  run("npm", ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", tarball], installed);
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A project that has the package, and nothing that another test did to it. */
function aProject(): string {
  const project = mkdtempSync(join(folder, "project-"));
  cpSync(installed, project, { recursive: true, verbatimSymlinks: true });
  return project;
}

test("the tarball installs without network, scripts or dependencies", () => {
  expect(listFiles(join(installed, "node_modules"), false)).toEqual(["millrace"]);
});

test("the tarball holds the build, the sources, the licence and the change log, and no test", () => {
  const files = listFiles(join(installed, "node_modules", "millrace"), true);
  for (const file of [
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "dist/index.js",
    "dist/index.d.ts",
    "src/index.ts",
  ]) {
    expect(files).toContain(file);
  }
  expect(files.filter((name) => name.includes(".test."))).toEqual([]);
});

test("a script in an empty project does one job on a database file", () => {
  const project = aProject();
  writeFileSync(join(project, "script.ts"), script);
  expect(run(process.execPath, ["script.ts"], project)).toBe("hello miller\n");
  expect(listFiles(project, false)).toContain("jobs.db");
});

test("the shipped types resolve for a strict compiler that also checks the libraries", () => {
  const project = aProject();
  writeFileSync(join(project, "script.ts"), script);
  mkdirSync(join(project, "node_modules", "@types"));
  for (const name of ["@types/node", "undici-types"]) {
    symlinkSync(join(root, "node_modules", name), join(project, "node_modules", name), "junction");
  }
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", "--types", "node"];
  const command = [tsc, ...options, "--lib", "es2024,esnext.disposable", "script.ts"];
  expect(run(process.execPath, command, project)).toBe("");
});

test("the command line starts", () => {
  const command = join(installed, "node_modules", ".bin", "millrace");
  expect(run(command, ["--help"], installed)).toContain("millrace");
});

test("the first five minutes go as their page says", async () => {
  const project = aProject();
  const page = readFileSync(join(root, "docs", "guides", "first-five-minutes.md"), "utf8");
  for (const [, name, code] of page.matchAll(/^```ts\n\/\/ (\S+)\n([\s\S]*?)^```$/gm))
    writeFileSync(join(project, name as string), code as string);
  const store = "sqlite:./minutes.db";
  const env = { ...ownEnv(), MILLRACE_STORE: store };
  const cli = join(project, "node_modules", "millrace", "dist", "cli", "main.js");
  const millrace = (...args: string[]): string =>
    run(process.execPath, [cli, ...args, "--store", store], project);
  const worker = spawn(process.execPath, [cli, "work", "./jobs.ts"], { cwd: project, env });
  onTestFinished(() => void worker.kill("SIGKILL"));
  const ended = once(worker, "exit");
  await once(worker.stdout, "data");
  const id = millrace("enqueue", "greet", '{"name":"Ann"}').trim();
  const enqueued = spawnSync(process.execPath, ["enqueue.ts", "--wait"], {
    cwd: project,
    env,
    encoding: "utf8",
  });
  expect(enqueued.stdout).toMatch(/^\S{21}\nhello Bob\n$/);
  expect(millrace("show", id)).toContain('result    "hello Ann"');
  expect(millrace("doctor")).toContain("no findings");
  worker.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
}, 60_000);

function listFiles(path: string, recursive: boolean): string[] {
  const names = readdirSync(path, { recursive, encoding: "utf8" });
  return names.filter((name) => !name.startsWith(".")).map((name) => name.replaceAll("\\", "/"));
}

/** Settings of an npm that started this test do not reach the commands. */
function ownEnv(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(npm_|node_options$|vitest)/i.test(name));
  return Object.fromEntries(own);
}

/** Answers what the command printed, or fails with it. */
function run(command: string, args: string[], cwd: string): string {
  const env = ownEnv();
  const answer = spawnSync(command, args, {
    cwd,
    env,
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (answer.error) throw answer.error;
  if (answer.status !== 0) {
    throw new Error(
      `${command} ${args.join(" ")} ended with ${answer.status}:\n${answer.stdout}${answer.stderr}`,
    );
  }
  return answer.stdout;
}
