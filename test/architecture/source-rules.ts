// The shape of src/ as rules over { path, source }: which folder may import which, who may name a concrete store, which
// of Node's modules belong to which folder, and what a file looks like. Pure, so that the test can plant violations. A
// new folder gets a line in MAY_IMPORT; a new exception gets a line in EXCEPTIONS with its reason.
import { parseSource } from "./parsed-source.ts";
import type { NamedModule } from "./parsed-source.ts";

export type SourceFile = { path: string; source: string };

const CORE = ["model", "platform", "codec", "store"];

/**
 * Folder of src/ to the folders it may import beside itself. "open" and "index" are the files of that name in src/
 * itself.
 */
const MAY_IMPORT: Record<string, readonly string[]> = {
  model: [],
  platform: [],
  codec: ["model"],
  store: ["model"],
  stores: [...CORE, "protocol"],
  engine: CORE,
  worker: [...CORE, "engine"],
  client: [...CORE, "engine", "worker"],
  protocol: ["model", "codec", "store"],
  http: [...CORE, "client", "protocol"],
  cli: [...CORE, "client", "open", "index", "stores"],
  opentelemetry: [...CORE, "engine", "worker"],
  testing: [...CORE, "engine", "worker", "client", "open", "index", "stores"],
  dashboard: [],
  open: [...CORE, "engine", "worker", "client", "stores"],
  index: [...CORE, "engine", "worker", "client", "open"],
};

/** Node's modules that reach the world outside, and who may use them; modules that are not listed only compute. */
const NODE_MODULES_OF: Record<string, readonly string[]> = {
  sqlite: ["stores"],
  fs: ["platform", "stores", "cli"],
  "fs/promises": ["platform", "stores", "cli"],
  worker_threads: ["platform", "stores"],
  child_process: ["platform"],
  cluster: ["platform"],
  os: ["platform"],
  process: ["platform"],
  perf_hooks: ["platform"],
  timers: ["platform"],
  "timers/promises": ["platform"],
  net: ["platform"],
  tls: ["platform"],
  dgram: ["platform"],
  dns: ["platform"],
  http: ["platform"],
  https: ["platform"],
  http2: ["platform"],
};

/** Optional peers: the one file that loads each of them, and nobody else. */
const DRIVERS: Record<string, string> = {
  "src/stores/postgres/connection/driver.ts": "pg",
  "src/stores/redis/connection/driver.ts": "ioredis",
  "src/opentelemetry/api.ts": "@opentelemetry/api",
};

const COMPUTES_ONLY = new Set(["model", "dashboard"]);
const LOADS_USER_CODE = new Set(["cli", "worker"]);
/** Exports of node:crypto that draw randomness; the whole module under one name ("default", "*") holds them too. */
const RANDOM_NAMES = /^(random\w+|getRandomValues|webcrypto|generate(Key|Prime)\w*|default|\*)$/;

/** `path rule` to the reason. */
const EXCEPTIONS: Record<string, string> = {
  "src/codec/encryption.ts random":
    "a nonce needs the system's randomness wherever the codec runs; a simulation passes its own randomBytes",
};

const ordering = "its stamps only put the events of several processes in order";
const lasting = "it says how long a fault lasts, and nothing is held against it";
const given = "times that are handed to the store";

/** Files of tests that may read the real clock, and why. */
const REAL_TIME: Record<string, string> = {
  "test/support/until.ts": "it ends a wait that hangs",
  "test/chaos/recorded-store.ts": ordering,
  "test/chaos/permit-process.ts": ordering,
  "test/chaos/group-process.ts": ordering,
  "test/chaos/killed-permit-holder.test.ts": ordering,
  "test/chaos/killed-group-holder.test.ts": ordering,
  "test/chaos/redis-cluster.test.ts": ordering,
  "test/chaos/redis-cluster-silent.test.ts": lasting,
  "test/chaos/postgres-stall.test.ts": lasting,
  "test/fleet/lost-hints.test.ts": lasting,
  "test/cli/doctor.test.ts": given,
  "test/cli/settings.test.ts": given,
  "test/contract/metrics.test.ts": given,
};

/** Of a test or a part of one: nothing in it may depend on how fast the machine is. */
export function timeViolationsOf({ path, source }: SourceFile): string[] {
  if (REAL_TIME[path] !== undefined) return [];
  return parseSource(path, source).realTimeLines.map(
    (line) =>
      `${path} (line ${line}) reads the real clock: check a promise about time on the virtual clock or by the order of events, and measure it in bench/; else name the file in REAL_TIME with its reason.`,
  );
}

const folderFilesMax = 25;
/** Written by a test and read beside a diff, one file for each function of a store. */
const generatedFolder = "test/assembled/";

/**
 * Of all paths of the repository: no folder holds more files than a reader takes in at once, tests not counted, and
 * none holds a single file.
 */
export function folderViolationsOf(paths: readonly string[]): string[] {
  const folders = Map.groupBy(paths, (path) => path.slice(0, path.lastIndexOf("/")));
  const parents = new Set([...folders.keys()].map((folder) => folder.slice(0, folder.lastIndexOf("/"))));
  return [...folders].flatMap(([folder, files]) => {
    if (folder.startsWith(generatedFolder)) return [];
    const counted = files.filter((path) => !path.endsWith(".test.ts")).length;
    if (counted > folderFilesMax)
      return [
        `${folder} holds ${counted} files: split it by feature, so that none holds more than ${folderFilesMax}.`,
      ];
    return files.length === 1 && !parents.has(folder)
      ? [`${folder} holds one file only: move the file to the folder above.`]
      : [];
  });
}

/** One sentence per violation; no sentence, no violation. */
export function violationsOf(file: SourceFile): string[] {
  if (file.path.endsWith(".test.ts")) return [];
  return layoutViolations(file).map((sentence) => `${file.path} ${sentence}`);
}

function layoutViolations({ path, source }: SourceFile): string[] {
  const { errors, hasHeader, modules, clockReadLines } = parseSource(path, source);
  if (errors.length > 0) return [`does not parse: ${errors.join(" ")}`];
  const found = hasHeader ? [] : ["starts without a header comment that says its duty."];
  const folder = folderOf(path);
  if (MAY_IMPORT[folder] === undefined) {
    found.push(
      `lies in "${folder}", which test/architecture/source-rules.ts does not know: add it to MAY_IMPORT.`,
    );
    return found;
  }
  for (const named of modules) {
    const sentence = importViolation(path, folder, named);
    if (sentence !== undefined) found.push(`(line ${named.line}) ${sentence}`);
  }
  if (folder !== "platform")
    for (const line of clockReadLines)
      found.push(`(line ${line}) reads the clock with Date; only platform does: use Platform.now().`);
  return found;
}

function importViolation(
  path: string,
  folder: string,
  { specifier, names }: NamedModule,
): string | undefined {
  if (specifier === null) {
    return LOADS_USER_CODE.has(folder)
      ? undefined
      : `imports a computed path; only ${list(LOADS_USER_CODE)} load code that is not ours.`;
  }
  if (specifier.startsWith("node:")) return nodeViolation(path, folder, specifier.slice(5), names);
  if (DRIVERS[path] === specifier) return undefined;
  if (!specifier.startsWith(".")) {
    return `imports "${specifier}"; the package has no dependencies, so it may import only its own files and node: modules.`;
  }
  return folderViolation(path, folder, specifier);
}

function folderViolation(path: string, folder: string, specifier: string): string | undefined {
  const target = new URL(specifier, `file:///${path}`).pathname.slice(1);
  if (!target.startsWith("src/")) return `imports "${specifier}", which lies outside src/.`;
  if (target.endsWith(".test.ts")) return `imports the test "${specifier}".`;
  const to = folderOf(target);
  if (to === "stores" && folder === "stores") {
    // A bucket is the SQLite store with a log of its pages (decision 0035).
    const isBucketOnSqlite = storeOf(path) === "bucket" && storeOf(target) === "sqlite";
    return storeOf(path) === storeOf(target) || isBucketOnSqlite
      ? undefined
      : `imports "${specifier}"; stores never import each other, so what they share belongs to store/.`;
  }
  if (to === folder || MAY_IMPORT[folder]?.includes(to)) return undefined;
  if (to === "stores")
    return `names the concrete store "${specifier}"; only open.ts, cli, testing and tests may.`;
  return `imports "${specifier}"; ${folder} may import ${list(MAY_IMPORT[folder] ?? [])}, not ${to}.`;
}

function nodeViolation(path: string, folder: string, name: string, names: string[]): string | undefined {
  if (COMPUTES_ONLY.has(folder)) return `imports "node:${name}"; ${folder} imports nothing from Node.`;
  const owners = NODE_MODULES_OF[name];
  if (owners !== undefined && !owners.includes(folder)) {
    return `imports "node:${name}"; only ${list(owners)} may touch that.`;
  }
  const random =
    name === "crypto" && folder !== "platform" ? names.find((each) => RANDOM_NAMES.test(each)) : undefined;
  if (random !== undefined && EXCEPTIONS[`${path} random`] === undefined) {
    return `imports "${random}" from node:crypto; only platform draws randomness.`;
  }
  const young = name === "zlib" && folder !== "stores" ? names.find((each) => /zstd/i.test(each)) : undefined;
  if (young !== undefined) {
    return `imports "${young}" from node:zlib by its name; a Node.js without it could not load the package to say that it is too old. Import all of node:zlib.`;
  }
  return undefined;
}

/** The folder directly under src/, or the name of a file that lies in src/ itself. */
function folderOf(path: string): string {
  const [, first = ""] = path.split("/");
  return first.replace(/\.ts$/, "");
}

function storeOf(path: string): string {
  return path.split("/")[2] ?? "";
}

function list(names: Iterable<string>): string {
  return [...names].join(", ") || "nothing";
}
