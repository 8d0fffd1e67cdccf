// What a user gets: builds and packs the package, installs the tarball into an empty project without network and
// without scripts, does one job there on a database file, lets the compiler resolve the shipped types, and follows the
// links of the shipped pages.
import { hangMs } from "../support/hang-ms.ts";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { checkOldest, oldestTsc, oldestVersions } from "../support/oldest-supported.ts";
import { headingsOf, relativeLinks } from "./markdown-links.ts";

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
  const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { files: string[] };
  const copied = files.filter((name) => name !== "dist" && !name.startsWith("!"));
  for (const name of ["package.json", ...copied])
    cpSync(join(root, name), join(staging, name), { recursive: true });
  run(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", join(staging, "dist")], root);
  run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], staging);
  const tarball = join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "no tarball");
  writeFileSync(join(installed, "package.json"), JSON.stringify({ private: true, type: "module" }));
  run("npm", ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", tarball], installed);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A project that has the package, and nothing that another test did to it. */
function aProject(): string {
  const project = mkdtempSync(join(folder, "project-"));
  cpSync(installed, project, { recursive: true, verbatimSymlinks: true });
  return project;
}

/** The same beside the types of Node. */
function aTypedProject(): string {
  const project = aProject();
  mkdirSync(join(project, "node_modules", "@types"));
  for (const name of ["@types/node", "undici-types"]) {
    symlinkSync(join(root, "node_modules", name), join(project, "node_modules", name), "junction");
  }
  return project;
}

test("the tarball installs without network, scripts or dependencies", () => {
  expect(listFiles(join(installed, "node_modules"), false)).toEqual(["millrace"]);
});

test("the tarball holds the build, the pages, the licence and the change log, and nothing for contributors", () => {
  const files = listFiles(join(installed, "node_modules", "millrace"), true);
  for (const file of ["LICENSE", "README.md", "CHANGELOG.md", "dist/index.js", "dist/index.d.ts"])
    expect(files).toContain(file);
  // The built code is the source without its types, so a stack leads to what was written, comments and all.
  const isForContributors = /\.test\.|\.map$|^src\/|^docs\/decisions\//;
  expect(files.filter((name) => isForContributors.test(name))).toEqual([]);
});

/** For those who work on Millrace: in the repository, but not in the package. */
const contributorsPage = /^(ARCHITECTURE|CONTRIBUTING)\.md$|^docs\/decisions\//;

test("every relative link of a packed page leads to a file of the package, or to a contributor's page, and to a heading that is there", () => {
  const packed = join(installed, "node_modules", "millrace");
  const pages = listFiles(packed, true).filter((name) => name.endsWith(".md"));
  expect(pages).toContain("docs/reference/options.md");
  const broken = pages.flatMap((page) => {
    const text = readFileSync(join(packed, page), "utf8");
    return relativeLinks(text).flatMap(({ path, heading }) => {
      const named = path === "" ? page : join(dirname(page), path);
      const target = join(contributorsPage.test(named) ? root : packed, named);
      const isThere =
        existsSync(target) && (heading === "" || headingsOf(readFileSync(target, "utf8")).includes(heading));
      return isThere ? [] : [`${page}: ${path}${heading === "" ? "" : `#${heading}`}`];
    });
  });
  expect(broken).toEqual([]);
});

test("every page that the code cites, as its errors do, is in the package", () => {
  const packed = join(installed, "node_modules", "millrace");
  const sources = listFiles(join(packed, "dist"), true).filter((name) => name.endsWith(".js"));
  const cited = sources.flatMap(
    (name) => readFileSync(join(packed, "dist", name), "utf8").match(/\bdocs\/[\w/-]+\.md\b/g) ?? [],
  );
  expect(cited).toContain("docs/operating/redis.md");
  const forUsers = [...new Set(cited)].filter((page) => !contributorsPage.test(page));
  expect(forUsers.filter((page) => !existsSync(join(packed, page)))).toEqual([]);
});

test("a script in an empty project does one job on a database file", () => {
  const project = aProject();
  writeFileSync(join(project, "script.ts"), script);
  expect(run(process.execPath, ["script.ts"], project)).toBe("hello miller\n");
  expect(listFiles(project, false)).toContain("jobs.db");
});

test("millrace/opentelemetry traces for who has its peer, and says what is missing to who has not", () => {
  const project = aProject();
  writeFileSync(
    join(project, "traced.ts"),
    `
import { Millrace, handler, job } from "millrace";
import { openTelemetry } from "millrace/opentelemetry";
const greet = job<string, string>("greet");
const mill = await Millrace.open("sqlite::memory:", { telemetry: openTelemetry() });
await mill.work([handler(greet, ({ input }) => "hello " + input)]);
console.log(await mill.call(greet, "miller"));
await mill.close();
`,
  );
  const { status, stderr } = spawnSync(process.execPath, ["traced.ts"], { cwd: project, encoding: "utf8" });
  expect([status, stderr]).toEqual([1, expect.stringContaining("Cannot find package '@opentelemetry/api'")]);
  mkdirSync(join(project, "node_modules", "@opentelemetry"));
  const peer = join("node_modules", "@opentelemetry", "api");
  symlinkSync(join(root, peer), join(project, peer), "junction");
  expect(run(process.execPath, ["traced.ts"], project)).toBe("hello miller\n");
});

test("the shipped types resolve by the settings of their page, for a compiler that also checks the libraries", () => {
  const project = aTypedProject();
  writeFileSync(join(project, "script.ts"), script);
  const page = readFileSync(join(root, "docs", "guides", "typescript.md"), "utf8");
  const [, settings = ""] = /^```json\n([\s\S]*?)^```$/m.exec(page) ?? [];
  const { compilerOptions } = JSON.parse(settings) as { compilerOptions: object };
  const tsconfig = { compilerOptions: { ...compilerOptions, skipLibCheck: false }, files: ["script.ts"] };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify(tsconfig));
  expect(run(process.execPath, [tsc, "-p", project], project)).toBe("");
});

test("the shipped types compile with the oldest TypeScript that the page names, libraries checked too", () => {
  const page = readFileSync(join(root, "docs", "guides", "typescript.md"), "utf8");
  expect(page).toContain(`TypeScript ${oldestVersions.typescript.replace(/\.\d+$/, "")}`);
  const project = aTypedProject();
  writeFileSync(join(project, "script.ts"), script);
  writeFileSync(join(project, "testing.ts"), `export { testMillrace } from "millrace/testing";`);
  const compilerOptions = {
    strict: true,
    target: "es2022",
    module: "nodenext",
    types: ["node"],
    noEmit: true,
  };
  const files = ["script.ts", "testing.ts"];
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  expect(run(process.execPath, [checkOldest(oldestTsc), "-p", project], project)).toBe("");
});

test("a CommonJS file can require the package, and its types are accepted there", () => {
  const project = aTypedProject();
  writeFileSync(join(project, "script.cjs"), `console.log(typeof require("millrace").Millrace.open)`);
  expect(run(process.execPath, ["script.cjs"], project)).toBe("function\n");
  writeFileSync(
    join(project, "script.cts"),
    `import { job } from "millrace";\nexport const greet = job("greet");`,
  );
  const options = ["--noEmit", "--strict", "--target", "es2024", "--types", "node", "--module"];
  for (const kind of ["nodenext", "node20", "commonjs"])
    expect(run(process.execPath, [tsc, ...options, kind, "script.cts"], project)).toBe("");
  expect(() => run(process.execPath, [tsc, ...options, "node18", "script.cts"], project)).toThrow("TS1479");
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
});

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
/** npm runs in the Node that it was installed with, as users run it, and not in the one of this repository. */
const ownNpm = [process.env["npm_node_execpath"], process.env["npm_execpath"]] as const;

function run(command: string, args: string[], cwd: string): string {
  const env = ownEnv();
  const [node, npm] = ownNpm;
  const isNpm = command === "npm" && node !== undefined && npm !== undefined;
  const answer = spawnSync(isNpm ? node : command, isNpm ? [npm, ...args] : args, {
    cwd,
    env,
    encoding: "utf8",
    shell: process.platform === "win32",
    timeout: hangMs,
  });
  if (answer.error) throw answer.error;
  if (answer.status !== 0) {
    throw new Error(
      `${command} ${args.join(" ")} ended with ${answer.status}:\n${answer.stdout}${answer.stderr}`,
    );
  }
  return answer.stdout;
}
