// The shape of src/ as rules over { path, source }: which folder may import which, who may name a concrete store, which of Node's modules
// belong to which folder, and what a file looks like. Pure, so that the test can plant violations. A new folder gets a line
// in MAY_IMPORT; a new exception gets a line in EXCEPTIONS with its reason.
import { SyntaxKind } from "typescript/unstable/ast";
import { type ImportedModule, type Token, importedModules, tokensOf } from "./source-tokens.ts";

export type SourceFile = { path: string; source: string };

const CORE = ["model", "platform", "codec", "store"];

/** Folder of src/ to the folders it may import beside itself. "open" and "index" are the files of that name in src/ itself. */
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
  worker_threads: ["platform", "stores", "worker"],
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

/** Drivers are optional peers: the one file of each store that loads it, and nobody else. */
const DRIVERS: Record<string, string> = {
  "src/stores/postgres/driver.ts": "pg",
  "src/stores/redis/driver.ts": "ioredis",
};

const COMPUTES_ONLY = new Set(["model", "dashboard"]);
const LOADS_USER_CODE = new Set(["cli", "worker"]);
const RANDOM_NAMES = /^(random\w+|getRandomValues|webcrypto|generate(Key|Prime)\w*)$/;
const LINES_MAX = 400;

/** `path rule` to the reason. */
const EXCEPTIONS: Record<string, string> = {
  "src/codec/encryption.ts random":
    "a nonce needs the system's randomness wherever the codec runs; a simulation passes its own randomBytes",
};

/** One sentence per violation; no sentence, no violation. */
export function violationsOf(file: SourceFile): string[] {
  const lineCount = file.source.split("\n").length - 1;
  const found =
    lineCount > LINES_MAX ? [`has ${lineCount} lines; the most is ${LINES_MAX}, so split it by duty.`] : [];
  if (!file.path.endsWith(".test.ts")) found.push(...layoutViolations(file));
  return found.map((sentence) => `${file.path} ${sentence}`);
}

function layoutViolations(file: SourceFile): string[] {
  const found: string[] = [];
  if (!/^(#!.*\n)?\s*(\/\/|\/\*)/.test(file.source)) {
    found.push("starts without a header comment that says its duty.");
  }
  const folder = folderOf(file.path);
  if (MAY_IMPORT[folder] === undefined) {
    found.push(
      `lies in "${folder}", which test/architecture/source-rules.ts does not know: add it to MAY_IMPORT.`,
    );
    return found;
  }
  const tokens = tokensOf(file.source);
  for (const imported of importedModules(tokens)) {
    const sentence = importViolation(file.path, folder, imported);
    if (sentence !== undefined) found.push(`(line ${imported.line}) ${sentence}`);
  }
  if (folder !== "platform") found.push(...clockReads(tokens));
  return found;
}

function importViolation(path: string, folder: string, imported: ImportedModule): string | undefined {
  const { specifier } = imported;
  if (specifier === null) {
    return LOADS_USER_CODE.has(folder)
      ? undefined
      : `imports a computed path; only ${list(LOADS_USER_CODE)} load code that is not ours.`;
  }
  if (specifier.startsWith("node:")) return nodeViolation(path, folder, specifier.slice(5), imported.names);
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
    return storeOf(path) === storeOf(target)
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
  return undefined;
}

/** `new Date()`, `new Date` and `Date()` read the clock; a Date made of a value is only a value. The linter sees `Date.now`. */
function clockReads(tokens: Token[]): string[] {
  const found: string[] = [];
  for (const [at, token] of tokens.entries()) {
    if (token.kind !== SyntaxKind.Identifier || token.text !== "Date") continue;
    const isNew = tokens[at - 1]?.kind === SyntaxKind.NewKeyword;
    const isCalled = tokens[at + 1]?.kind === SyntaxKind.OpenParenToken;
    const isEmptyCall = isCalled && tokens[at + 2]?.kind === SyntaxKind.CloseParenToken;
    if (isEmptyCall || (isNew && !isCalled)) {
      found.push(`(line ${token.line}) reads the clock with Date; only platform does: use Platform.now().`);
    }
  }
  return found;
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
