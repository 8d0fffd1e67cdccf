/** `millrace restore` on a bucket in a folder: what it lists, what it asks, what it makes. */
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { job, Millrace } from "millrace";
import { expect, test } from "vitest";
import { aFolder, say, sayJson } from "./run-millrace.ts";

const plain = job<{ n: number }>("plain");

interface World {
  readonly url: string;
  readonly folder: string;
  /** The last record that has both of the first two jobs and nothing more. */
  readonly until: number;
}

function records(folder: string): number[] {
  return readdirSync(join(folder, "log"))
    .map(Number)
    .sort((one, other) => one - other);
}

async function threeJobs(): Promise<World> {
  const folder = join(aFolder(), "bucket");
  const url = `file://${folder}`;
  const mill = await Millrace.open(url);
  await mill.enqueue(plain, { n: 1 });
  await mill.enqueue(plain, { n: 2 });
  const until = records(folder).at(-1) as number;
  await mill.enqueue(plain, { n: 3 });
  await mill.close();
  return { url, folder, until };
}

test("restore asks before it drops anything, then the bucket goes on after the record", async () => {
  const { url, until, folder } = await threeJobs();
  const before = records(folder);
  const asked = await say(["restore", "--store", url, "--until", String(until)]);
  expect(asked.code).toBe(1);
  expect(asked.out).toMatch(
    new RegExp(`drop what ${before.length - until} records after record ${until} changed`),
  );
  expect(records(folder)).toEqual(before);
  const absent = await say(["restore", "--store", url, "--until", "999"]);
  expect(absent).toMatchObject({ code: 2, out: "" });
  expect(absent.err).toMatch(`it can be restored from record 1 to ${before.length}`);

  const done = await say(["restore", "--store", url, "--until", String(until), "--yes"]);
  expect(done).toMatchObject({ code: 0, err: "" });
  expect(done.out).toMatch(`what the ${before.length - until} records after it changed`);
  const [, kept] = /under (kept\/\d{12}\/)/.exec(done.out) ?? [];
  const { jobs } = (await sayJson(["list", "--store", url])) as { jobs: unknown[] };
  expect(jobs).toHaveLength(2);
  const then = (await sayJson(["list", "--store", `${url}/${kept}`])) as { jobs: unknown[] };
  expect(then.jobs).toHaveLength(3);
});

test("a damaged record is named with the command that goes before it, and that command makes a file", async () => {
  const { url, folder, until } = await threeJobs();
  const object = join(folder, "log", String(until + 1).padStart(12, "0"));
  const bytes = readFileSync(object);
  bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1;
  writeFileSync(object, bytes);
  const refused = await say(["list", "--store", url]);
  expect(refused.code).toBe(1);
  expect(refused.err).toContain(`millrace restore --until ${until}.`);

  const copy = join(aFolder(), "copy.db");
  const { record } = await sayJson([
    "restore",
    "--store",
    url,
    "--until",
    String(until),
    "--to",
    `sqlite:${copy}`,
  ]);
  expect(record).toBe(until);
  const mill = await Millrace.open(`sqlite:${copy}`);
  const seen: number[] = [];
  const { handler } = await import("millrace");
  await mill.work([handler(plain, ({ input }) => void seen.push(input.n))]);
  const handle = await mill.enqueue(plain, { n: 9 });
  await handle.result();
  await mill.close();
  expect(seen.toSorted((one, other) => one - other)).toEqual([1, 2, 9]);
});

test("--list shows the checkpoints and the log with their times", async () => {
  const { url, folder } = await threeJobs();
  const { marks, log } = await sayJson(["restore", "--store", url, "--list"]);
  expect(marks).toEqual([]);
  const all = records(folder);
  expect(log).toMatchObject({
    first: { record: 1 },
    last: { record: all.at(-1), kind: "end" },
    records: all.length,
  });
  expect((await say(["restore", "--store", url, "--list"])).out).toMatch(/^log from +1 +20\d\d-/m);
});

test.each([
  [["--until", "1", "--store", "sqlite:./jobs.db"], /restore works on a bucket/],
  [["--store", "file:///nowhere/else"], /give --until/],
  [["--list", "--until", "1", "--store", "file:///nowhere/else"], /--list goes with no other/],
  [["--until", "1", "--to", "sqlite:./a.db", "--yes", "--store", "file:///nowhere/else"], /give one of them/],
])("restore %j is refused", async (args, sentence) => {
  const { code, err } = await say(["restore", ...args]);
  expect(code).toBe(2);
  expect(err).toMatch(sentence);
});

test("a restore of a folder that holds no store is refused", async () => {
  const folder = aFolder();
  const { code, err } = await say(["restore", "--list", "--store", `file://${folder}`]);
  expect(code).not.toBe(0);
  expect(err).toMatch(/holds no store/);
});
