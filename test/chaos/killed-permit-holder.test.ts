/**
 * The process of a permit is killed -9: its lease ends by the store's clock, and who waits in another process gets the
 * permit, by nothing but that process's own duties.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { Millrace } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { useTestDatabase } from "../support/use-postgres.ts";
import { useSharedRedis } from "../support/use-redis.ts";

const script = fileURLToPath(new URL("permit-holder.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-permits-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();

const urls: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, "jobs.db")}`],
  ["Postgres", () => database.url],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`],
];

describe.each(urls)("on %s", (_store, place) => {
  const closeLater = closeAfterEach();

  test("kill -9 of the holder frees its permit, and is no error of a job", { timeout: 60_000 }, async () => {
    const url = place();
    const holder = spawn(process.execPath, ["--conditions=millrace-source", script, url], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = new Promise((resolve) => holder.once("exit", resolve));
    const said = await new Promise<string>((resolve) =>
      holder.stdout.once("data", (line) => resolve(String(line))),
    );
    expect(said).toBe("held\n");
    const mill = closeLater(await Millrace.open(url, { log: false }));
    await expect(mill.limits.acquire("slack", { weight: 2, wait: 0 })).rejects.toMatchObject({
      code: "limit-busy",
    });
    holder.kill("SIGKILL");
    await exited;
    const permit = await mill.limits.acquire("slack", { weight: 2, wait: "30s" });
    expect(await mill.limits.state("slack")).toMatchObject({ held: 2 });
    await permit.release();
    expect([(await mill.limits.state("slack")).held, await mill.jobs.counts()]).toEqual([0, {}]);
  });
});
