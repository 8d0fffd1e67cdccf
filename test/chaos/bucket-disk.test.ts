/**
 * The disk of the local copy is full: calls are refused before the acknowledgement, and nothing that was acknowledged
 * is lost. MILLRACE_SMALL_DISK=/mnt/tmpfs does it on a real file system of 6 MB.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { job } from "../../src/engine/submit/job-definition.ts";
import { openMillrace } from "../../src/open.ts";

const root = mkdtempSync(join(tmpdir(), "millrace-bucket-disk-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const script = fileURLToPath(new URL("bucket-disk-process.ts", import.meta.url));
/** Blocks of 512 bytes: more than the log of the copy takes before it is written back, less than the file then has. */
const blocks = 10_000;

test.skipIf(process.platform === "win32")(
  "a local copy that cannot grow refuses enqueues and leaves a whole bucket (skipped on Windows: no ulimit)",
  async () => {
    const url = `file://${join(root, "bucket")}`;
    const command = `ulimit -f ${blocks}; exec "$0" --conditions=millrace-source "$@"`;
    const cacheFolder = process.env["MILLRACE_SMALL_DISK"] ?? join(root, "cache");
    const { stdout } = await promisify(execFile)("sh", [
      ...["-c", command, process.execPath],
      ...[script, url, cacheFolder, "3"],
    ]);
    const { acknowledged, refusals } = JSON.parse(stdout) as Record<"acknowledged" | "refusals", string[]>;
    expect(acknowledged.length).toBeGreaterThan(40);
    // Of a limit SQLite says less than of a full disk: whether it wrote the commit it does not know.
    for (const refusal of refusals)
      expect(["store-full did-not-happen", "outcome-unknown unknown"]).toContain(refusal);
    const views = join(root, "views");
    const view = await openMillrace(url, { log: false, bucket: { view: true, cacheFolder: views } });
    const [made] = readdirSync(views);
    const copy = new DatabaseSync(join(views, made as string, "store.db"), { readOnly: true });
    expect(copy.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
    copy.close();
    for (const id of acknowledged) expect(await view.jobs.get(id)).toMatchObject({ state: "ready" });
    await view.close();
  },
);

test.skipIf(process.platform === "win32")(
  "commands that copy the store say in one line that the copy has no room (skipped on Windows: no ulimit)",
  async () => {
    const url = `file://${join(root, "large")}`;
    const mill = await openMillrace(url, { log: false, metrics: false });
    const inputs = Array.from({ length: 10 }, (_, at) => randomBytes(50_000 + at).toString("base64"));
    await mill.enqueueMany(inputs.map((input) => job<string>("work").with(input)));
    await mill.close();
    const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
    const command = 'ulimit -f 400; exec "$0" --conditions=millrace-source "$@"';
    for (const args of [
      ["doctor"],
      ["counts"],
      ["migrate"],
      ["restore", "--to", `sqlite:${join(root, "copy.db")}`],
      ["restore", "--until", "3", "--yes"],
    ]) {
      const ran = promisify(execFile)("sh", ["-c", command, process.execPath, main, ...args, "--store", url]);
      const { stderr } = (await ran.then(
        () => ({ stderr: "" }),
        (error: unknown) => error,
      )) as { stderr: string };
      expect(stderr, args.join(" ")).toMatch(
        /^millrace: store-full: The folder \S+ has no room left [^\n]*\n$/,
      );
    }
    expect(readdirSync(root).filter((name) => name.startsWith("copy.db"))).toEqual([]);
  },
);
