/** `millrace doctor` on a bucket in a folder, while a process writes to it and after. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { job, Millrace } from "millrace";
import { expect, test } from "vitest";
import { aFolder, say, sayJson } from "./run-millrace.ts";

const plain = job<{ n: number }>("plain");

test("doctor looks at a bucket beside its writer and disturbs nothing", async () => {
  const url = `file://${join(aFolder(), "bucket")}`;
  const mill = await Millrace.open(url);
  await mill.enqueue(plain, { n: 1 });
  const report = await sayJson(["doctor", "--store", url]);
  expect(report).toMatchObject({
    ok: true,
    store: { kind: "bucket", durability: "strict", transactions: false, processes: "one" },
    bucket: {
      isWhole: true,
      conditions: "kept",
      deletionRules: [],
      writer: { state: "writes", pid: process.pid },
    },
    jobs: { ready: 1 },
    findings: [],
  });
  // It still writes: nobody has fenced it.
  await mill.enqueue(plain, { n: 2 });
  const text = await mill.metrics.prometheus();
  for (const line of [
    /^millrace_store_requests_total\{kind="put"\} [1-9]\d*$/m,
    /^millrace_store_requests_total\{kind="list"\} [1-9]\d*$/m,
    /^millrace_store_request_bytes_total\{direction="got"\} [1-9]\d*$/m,
    /^millrace_store_request_cost_total [\d.e-]+$/m,
  ])
    expect(text).toMatch(line);
  await mill.close();
  const { out } = await say(["doctor", "--store", url, "--prices", "put=1,gib=0"]);
  expect(out).toMatch(/^store +bucket, schema \d+, epoch 1, opened as strict$/m);
  expect(out).toMatch(/^rules +0 that delete objects of this store$/m);
  expect(out).toMatch(/^jobs +2 ready$/m);
});

test("doctor says what it can of a bucket that cannot be opened", async () => {
  const folder = join(aFolder(), "bucket");
  const url = `file://${folder}`;
  const mill = await Millrace.open(url);
  await mill.enqueue(plain, { n: 1 });
  await mill.enqueue(plain, { n: 2 });
  await mill.close();
  rmSync(join(folder, "log", "000000000001"));
  const { code, out } = await say(["doctor", "--store", url]);
  expect(code).toBe(1);
  expect(out).toMatch(/^FINDING +objects: The object log\/000000000001 is damaged or missing: it is gone/m);
  const report = JSON.parse((await say(["doctor", "--store", url, "--json"])).out) as { ok: boolean };
  expect(report.ok).toBe(false);
});

test("prices are for buckets, and are numbers", async () => {
  const url = `file://${join(aFolder(), "bucket")}`;
  for (const args of [
    ["--store", url, "--prices", "put=cheap"],
    ["--store", url, "--prices", "storage=1"],
    ["--store", "sqlite::memory:", "--prices", "put=1"],
  ])
    expect((await say(["doctor", ...args])).code).toBe(2);
});
