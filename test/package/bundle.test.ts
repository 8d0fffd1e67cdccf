// A program that its user packs into one file: Millrace and the Redis driver included, minified, run where there is no
// node_modules.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useOwnRedis } from "../support/servers/use-redis.ts";

const root = join(import.meta.dirname, "..", "..");
const folder = mkdtempSync(join(tmpdir(), "millrace-bundle-"));
const redis = useOwnRedis();

const script = `
import { Millrace, handler, job } from "millrace";

const greet = job<{ name: string }, { text: string }>("greet");
const mill = await Millrace.open(process.argv[2] as string);
await mill.work([handler(greet, async ({ input }) => ({ text: "hello " + input.name }))]);
const handle = await mill.enqueue(greet, { name: "miller" });
console.log((await handle.result({ timeout: "20s" })).text);
await mill.close();
`;

beforeAll(async () => {
  await build({
    stdin: { contents: script, loader: "ts", resolveDir: root, sourcefile: "script.ts" },
    outfile: join(folder, "script.mjs"),
    bundle: true,
    minify: true,
    platform: "node",
    format: "esm",
    alias: { millrace: join(root, "src", "index.ts") },
    external: ["pg"],
    // The driver is CommonJS, and asks for Node's own modules while it runs.
    banner: {
      js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
    },
  });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

// The driver calls what Node has deprecated.
const run = (url: string) =>
  spawnSync(process.execPath, ["--no-deprecation", "script.mjs", url], { cwd: folder, encoding: "utf8" });

test("is one file", () => {
  expect(readdirSync(folder)).toEqual(["script.mjs"]);
});

test("runs a job on SQLite", () => {
  expect(run("sqlite:./jobs.db")).toMatchObject({ stdout: "hello miller\n", stderr: "", status: 0 });
});

test("runs a job on Redis", () => {
  expect(run(redis.server.url)).toMatchObject({ stdout: "hello miller\n", stderr: "", status: 0 });
});
