// Makes node_modules match package-lock.json and puts the pinned Node at node_modules/node/bin. The npm package `node`
// fetches its binary in an install script; install scripts are off for everything (.npmrc), so this file installs the
// binary's package itself and accepts it only with the integrity written in pinned-node.json. The pinned Node gets no
// link in node_modules/.bin: npm puts that folder first in PATH, so a Node there that cannot start (a folder shared
// with another system) would stop this very script. The oldest supported versions, with which some tests run, are
// installed beside it. Runs on Node 20 without dependencies.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { withSetupLock } from "./setup-lock.mjs";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const pinned = JSON.parse(readFileSync(join(root, "scripts", "pinned-node.json"), "utf8"));
const oldest = JSON.parse(readFileSync(join(root, "scripts", "oldest-supported.json"), "utf8"));
const modules = join(root, "node_modules");
const oldestModules = join(modules, ".oldest", "node_modules");
const stampPath = join(modules, ".millrace-stamp");
const binary = join(modules, "node", "bin", process.platform === "win32" ? "node.exe" : "node");
const NETWORK_TROUBLE =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED/;

/**
 * A set-up that cannot work; its message is the one line that the user needs, `detail` is npm's output where that
 * helps.
 */
export class SetupError extends Error {
  constructor(message, detail = "") {
    super(message);
    this.detail = detail;
  }
}

let runningNpm;
let isStopping = false;

/** Ends a set-up that is under way, and answers when nothing of it writes any more. */
export async function stopSetUp() {
  isStopping = true;
  if (runningNpm === undefined) return;
  const ended = new Promise((resolve) => runningNpm.once("close", resolve));
  runningNpm.kill();
  await ended;
}

/** Installs what is missing and answers the path of the pinned Node. */
export async function setUp() {
  if (isReady()) return nodePath();
  await withSetupLock(
    root,
    async (addProcess) => {
      if (readStamp() !== wantedStamp()) await installPackages(addProcess);
      if (!runsPinnedVersion(nodePath())) await installNode(addProcess);
      if (!hasOldest()) await installOldest(addProcess);
      writeFileSync(stampPath, wantedStamp());
    },
    (pid) => say(`waiting for another set-up of this folder (process ${pid ?? "unknown"})`),
  );
  if (!isReady())
    throw new SetupError(
      `Node ${pinned.version} does not run from ${binary}: delete node_modules and run the command again.`,
    );
  return nodePath();
}

function isReady() {
  return readStamp() === wantedStamp() && runsPinnedVersion(nodePath()) && hasOldest();
}

/** The oldest supported versions that are published for this system. */
function oldestPackages() {
  return Object.values(oldest).flatMap(({ version, packages }) => {
    const found = packages.any ?? packages[`${process.platform}-${process.arch}`];
    return found === undefined ? [] : [{ ...found, version }];
  });
}

function hasOldest() {
  return oldestPackages().every(({ name, version }) => {
    const path = join(oldestModules, name, "package.json");
    return existsSync(path) && JSON.parse(readFileSync(path, "utf8")).version.replace(/^v/, "") === version;
  });
}

function archPackage() {
  return pinned.packages[`${process.platform}-${process.arch}`];
}

/**
 * The machine's own Node serves if it has exactly the pinned version, also where no binary is published for the system.
 */
function nodePath() {
  return process.versions.node === pinned.version ? process.execPath : binary;
}

function wantedStamp() {
  const lock = readFileSync(join(root, "package-lock.json"));
  return createHash("sha256")
    .update(lock)
    .update(JSON.stringify([pinned, process.platform, process.arch]))
    .digest("hex");
}

function readStamp() {
  return existsSync(stampPath) ? readFileSync(stampPath, "utf8") : undefined;
}

function runsPinnedVersion(path) {
  if (!existsSync(path)) return false;
  const answer = spawnSync(path, ["--version"], {
    encoding: "utf8",
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  return answer.stdout?.trim() === `v${pinned.version}`;
}

async function installPackages(addProcess) {
  say("installing the development packages (once, about a minute)");
  await npm(["ci", "--include=dev", "--include=optional", "--include=peer"], root, addProcess);
}

async function installNode(addProcess) {
  const arch = archPackage();
  if (arch === undefined) {
    throw new SetupError(
      `Node ${pinned.version} is not published for ${process.platform}-${process.arch}: install that version on this machine and run the command again.`,
    );
  }
  say(`installing Node ${pinned.version} into node_modules (once)`);
  const folder = join(modules, ".millrace-node");
  await installInto(folder, [{ ...arch, version: pinned.version }], "pinned-node.json", addProcess);
  mkdirSync(dirname(binary), { recursive: true });
  renameSync(join(folder, "node_modules", arch.name, "bin", basename(binary)), binary);
  rmSync(folder, { recursive: true, force: true });
  if (!runsPinnedVersion(binary)) {
    throw new SetupError(
      `The published Node ${pinned.version} does not start on this system: install that version on this machine and run the command again.`,
    );
  }
}

async function installOldest(addProcess) {
  const packages = oldestPackages();
  const names = Object.entries(oldest).map(([name, { version }]) => `${name} ${version}`);
  say(`installing the oldest supported versions for the tests (once): ${names.join(", ")}`);
  await installInto(dirname(oldestModules), packages, "oldest-supported.json", addProcess);
}

/** Installs packages into a folder of their own, and leaves nothing of them there if one is not the expected file. */
async function installInto(folder, packages, file, addProcess) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "own-folder", private: true }));
  const wanted = packages.map(({ name, version }) => `${name}@${version}`);
  await npm(["install", "--package-lock=false", `--prefix=${folder}`, ...wanted], folder, addProcess);
  const installed = JSON.parse(readFileSync(join(folder, "node_modules", ".package-lock.json"), "utf8"));
  for (const { name, version, integrity } of packages) {
    if (installed.packages[`node_modules/${name}`]?.integrity === integrity) continue;
    rmSync(folder, { recursive: true, force: true });
    throw new SetupError(
      `${name}@${version} is not the file that scripts/${file} expects: check your npm registry.`,
    );
  }
}

/**
 * Runs npm quietly, independent of the user's own npm settings; its output is shown only when it fails for a reason of
 * its own.
 */
async function npm(args, cwd, addProcess) {
  const settings = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--global=false",
    "--engine-strict=false",
  ];
  const retries = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"];
  const all = [...args, ...settings, ...retries, "--no-update-notifier", "--loglevel=error"];
  const env = { ...process.env, PATH: machinePath(), NODE_ENV: "", NODE_OPTIONS: "" };
  const child = spawn("npm", all, {
    cwd,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    shell: process.platform === "win32",
  });
  runningNpm = child;
  if (child.pid !== undefined) addProcess(child.pid);
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  const code = await new Promise((resolve, reject) => {
    child.once("error", (cause) =>
      reject(
        new SetupError(`npm could not be started (${cause.message}): install npm and run the command again.`),
      ),
    );
    child.once("close", resolve);
  });
  runningNpm = undefined;
  // The process is about to exit because of a signal; npm's end is then no failure to report.
  if (isStopping) await new Promise(() => {});
  if (code === 0) return;
  const trouble = NETWORK_TROUBLE.exec(output)?.[0];
  if (trouble)
    throw new SetupError(
      `The npm registry cannot be reached (${trouble}): connect to the network, or set your npm registry, and run the command again.`,
    );
  throw new SetupError(
    `npm ${args[0]} failed (exit ${code}); its output is above. Remove the cause and run the command again.`,
    output,
  );
}

/** npm must run on the machine's Node: the pinned one lies in the very folder that npm replaces. */
function machinePath() {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => !folder.startsWith(modules))
    .join(delimiter);
}

function say(line) {
  process.stderr.write(`millrace set-up: ${line}\n`);
}
