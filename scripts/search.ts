// `npm run search -- --minutes 30`: looks for bugs with seeds that nobody has tried. `npm test` draws the same values
// in every run; this draws new ones, one search after the other, until the time is over. A search is a set of test
// files and the variables that their seeds come by. What fails is printed with the command that runs it again, and the
// search goes on. `--only NAME,NAME` takes some of them, `--seed N` starts from a seed of yours, `--list` names them.
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { resolve as resolvePath } from "node:path";
import { parseArgs } from "node:util";
import { makeMemoryFolder } from "./memory-folder.ts";
import { installTestPrograms } from "./test-programs.ts";

interface Search {
  readonly name: string;
  readonly files: readonly string[];
  /** One draw has to end within some minutes. */
  readonly variables: (seed: number) => Readonly<Record<string, string>>;
}

const withProperties = globSync(["src/**/*.test.ts", "test/**/*.test.ts"]).filter((file) =>
  readFileSync(file, "utf8").includes('from "fast-check"'),
);

/** So many seeds of a simulation in one draw. */
const seedsAtOnce = 20;
const range = (seed: number): string => `${seed}-${seed + seedsAtOnce - 1}`;

const searches: readonly Search[] = [
  { name: "simulation", ...simulation("simulation") },
  { name: "partitions", ...simulation("partitions") },
  { name: "postgres", ...simulation("postgres") },
  { name: "redis", ...simulation("redis") },
  { name: "bucket", ...simulation("bucket") },
  {
    name: "flows",
    files: ["test/simulation/simulation.test.ts"],
    variables: (seed) => ({ MILLRACE_SEEDS: range(seed), MILLRACE_FLOWS: "1" }),
  },
  ...(["simulation", "partitions", "postgres", "redis", "bucket"] as const).map((file) => ({
    name: `runs-${file}`,
    files: [`test/simulation/${file}.test.ts`],
    variables: (seed: number) => ({ MILLRACE_SEEDS: range(seed), MILLRACE_RUNS: "1" }),
  })),
  { name: "properties", files: withProperties, variables: (seed) => ({ PROPERTY_SEED: String(seed) }) },
  {
    name: "histories",
    files: globSync("test/model/*histories*.test.ts"),
    variables: (seed) => ({ HISTORY_SEED: String(seed) }),
  },
  {
    name: "durable",
    files: ["test/durable/random-programs.test.ts", "test/durable/random-workers.test.ts"],
    variables: (seed) => ({ MILLRACE_DURABLE: "100", MILLRACE_DURABLE_FROM: String(seed) }),
  },
  {
    name: "budgets",
    files: ["test/simulation/budgets.test.ts"],
    variables: (seed) => ({ MILLRACE_BUDGETS: "100", MILLRACE_BUDGETS_FROM: String(seed) }),
  },
  {
    name: "crashes",
    files: ["test/simulation/flow-crashes.test.ts", "test/simulation/bucket-crashes.test.ts"],
    variables: () => ({ MILLRACE_CRASHES: "all" }),
  },
  {
    name: "storm",
    files: ["test/chaos/redis-storm.test.ts"],
    variables: (seed) => ({ MILLRACE_STORM: String(seed) }),
  },
  {
    name: "kills",
    files: globSync(["test/chaos/*kill*.test.ts", "test/fleet/takeover.test.ts"]),
    variables: (seed) => ({ MILLRACE_SEED: String(seed), MILLRACE_KILLS: "5", MILLRACE_TRIES: "5" }),
  },
];

function simulation(file: string): Omit<Search, "name"> {
  return {
    files: [`test/simulation/${file}.test.ts`],
    variables: (seed) => ({ MILLRACE_SEEDS: range(seed) }),
  };
}

process.exitCode = await main();

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string", default: "30" },
      only: { type: "string" },
      seed: { type: "string" },
      list: { type: "boolean", default: false },
    },
  });
  const names = values.only?.split(",") ?? searches.map(({ name }) => name);
  const unknown = names.find((name) => !searches.some((search) => search.name === name));
  const minutes = Number(values.minutes);
  const given = values.seed === undefined ? null : Number(values.seed);
  if (unknown !== undefined || !(minutes > 0) || (given !== null && !Number.isSafeInteger(given))) {
    console.error("usage: npm run search -- [--minutes N] [--only NAME,NAME] [--seed N] [--list]");
    return 2;
  }
  const chosen = searches.filter(({ name }) => names.includes(name));
  if (values.list) {
    for (const { name, files } of chosen) console.log(`${name}: ${files.length} files, first ${files[0]}`);
    return 0;
  }
  await installTestPrograms();
  const endsMs = performance.now() + minutes * 60_000;
  const failures: string[] = [];
  for (let turn = 0; performance.now() < endsMs; turn++) {
    const search = chosen[turn % chosen.length] as Search;
    const seed = given === null ? randomInt(1_000_000, 1_000_000_000) : given + turn * seedsAtOnce;
    const failed = await draw(search, seed);
    if (failed !== null) failures.push(failed);
  }
  console.log(failures.length === 0 ? "\nNothing failed." : `\n${failures.join("\n")}`);
  return failures.length === 0 ? 0 : 1;
}

/** @returns the command that runs it again, if it failed */
async function draw({ name, files, variables }: Search, seed: number): Promise<string | null> {
  const given = variables(seed);
  const again = [...Object.entries(given).map(([key, value]) => `${key}=${value}`), "npm test --", ...files];
  const startMs = performance.now();
  const { code, output } = await runTests(files, given);
  const seconds = Math.round((performance.now() - startMs) / 1000);
  console.log(`${code === 0 ? "ok    " : "FAILED"} ${name}, seed ${seed} (${seconds} s)`);
  if (code === 0) return null;
  console.log(output.slice(-20_000));
  return again.join(" ");
}

function runTests(
  files: readonly string[],
  variables: Readonly<Record<string, string>>,
): Promise<{ readonly code: number; readonly output: string }> {
  const memory = makeMemoryFolder();
  const env = {
    ...process.env,
    ...variables,
    NODE_COMPILE_CACHE: resolvePath("node_modules/.cache/compile"),
    ...(memory === null ? {} : { TMPDIR: memory.path }),
  };
  const command = ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", ...files];
  const child = spawn(process.execPath, command, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output = (output + chunk.toString()).slice(-200_000)));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      memory?.remove();
      resolve({ code: code ?? 1, output });
    });
  });
}
