/**
 * The tail of SQLite's write-ahead log by itself: what it reads, applied to an empty file, must give the very rows that
 * the connection sees, whatever the log went through.
 */
import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, expect, test } from "vitest";
import { WalTail } from "./wal-tail.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-wal-tail-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

class Subject {
  readonly path = join(folder, `${(files += 1)}.db`);
  readonly database = new DatabaseSync(this.path);
  readonly tail: WalTail;
  readonly #copy = `${this.path}-copy`;

  constructor() {
    this.database.exec(
      `PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
       PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 20;
       CREATE TABLE job (seq INTEGER PRIMARY KEY, body TEXT); CREATE INDEX job_body ON job (body)`,
    );
    this.tail = new WalTail(this.database, this.path);
    writeFileSync(this.#copy, "");
  }

  add(count: number, what = "job"): void {
    const sql = `INSERT INTO job (body) WITH RECURSIVE n (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < ?)
      SELECT ? || at || hex(zeroblob(50)) FROM n`;
    this.database.prepare(sql).run(count, what);
  }

  /** Takes the tail into the copy. @returns how many pages there were. */
  take(): number {
    const read = this.tail.read();
    if (read === null) return 0;
    const file = openSync(this.#copy, "r+");
    for (const [number, image] of read.pages)
      writeSync(file, image, 0, image.length, (number - 1) * this.tail.pageSize);
    closeSync(file);
    const pages = this.database.prepare("PRAGMA page_count").get() as { page_count: number };
    assert(pages.page_count === read.pageCount);
    return read.pages.size;
  }

  /** What the copy holds, and what the connection sees. */
  both(): [copy: unknown, own: unknown] {
    const copy = new DatabaseSync(this.#copy);
    const rows = "SELECT count(*) count, sum(seq) seqs, max(body) last FROM job";
    const [check, found] = [copy.prepare("PRAGMA integrity_check").get(), copy.prepare(rows).get()];
    copy.close();
    return [
      [check, found],
      [{ integrity_check: "ok" }, this.database.prepare(rows).get()],
    ];
  }

  get walPath(): string {
    return `${this.path}-wal`;
  }

  get walBytes(): number {
    return readFileSync(this.walPath).length;
  }

  close(): void {
    this.tail.close();
    this.database.close();
  }
}

function expectSame(subject: Subject): void {
  const [copy, own] = subject.both();
  expect(copy).toEqual(own);
}

const opened: Subject[] = [];
const open = (): Subject => {
  const subject = new Subject();
  opened.push(subject);
  return subject;
};
afterEach(() => {
  for (const subject of opened.splice(0)) subject.close();
});

test("a unit of 100,000 jobs, which SQLite spills into the log before its commit, is read whole and once", () => {
  const subject = open();
  subject.take();
  subject.database.exec("BEGIN");
  subject.add(100_000);
  expect(subject.walBytes).toBeGreaterThan(10 * 2 ** 20);
  subject.database.exec("COMMIT");
  expect(subject.take()).toBeGreaterThan(1000);
  expect(subject.take()).toBe(0);
  expectSame(subject);
});

test("a rollback after a spill leaves frames that are not read, also not by the next commits over them", () => {
  const subject = open();
  subject.add(100);
  subject.take();
  const before = subject.walBytes;
  subject.database.exec("BEGIN");
  subject.add(5000, "gone");
  subject.database.exec("ROLLBACK");
  expect(subject.walBytes).toBeGreaterThan(before + 2 ** 18);
  expect(subject.take()).toBe(0);
  for (const count of [1, 1, 300, 1]) {
    subject.add(count);
    expect(subject.take()).toBeGreaterThan(0);
    expectSame(subject);
  }
});

test("a unit that fails because the file is full is not read, and the next commit is", () => {
  const subject = open();
  subject.add(100);
  subject.take();
  const [{ page_count: pages }] = subject.database.prepare("PRAGMA page_count").all() as [
    { page_count: number },
  ];
  subject.database.exec(`PRAGMA max_page_count = ${pages + 100}; BEGIN`);
  expect(() => subject.add(50_000, "full")).toThrow(/full/);
  if (subject.database.isTransaction) subject.database.exec("ROLLBACK");
  expect(subject.take()).toBe(0);
  subject.add(3, "fits");
  expect(subject.take()).toBeGreaterThan(0);
  expectSame(subject);
});

test("after a cut the log begins again with other salts, and frames of the generation before do not count", () => {
  const subject = open();
  for (let round = 0; round < 5; round++) {
    subject.add(2000, `long ${round} `);
    subject.take();
    expect(subject.tail.cut()).toBe(true);
    expect(subject.walBytes).toBe(0);
    expect(subject.take()).toBe(0);
    subject.add(1, `short ${round} `);
    expect(subject.take()).toBeGreaterThan(0);
    expectSame(subject);
  }
});

test("if the log was written back but not cut, SQLite writes over its front, which is read with what lies after it left out", () => {
  const subject = open();
  subject.add(2000, "old");
  subject.take();
  const { length } = readFileSync(subject.walPath);
  // What a truncation that failed leaves: everything is in the file, and the old frames still lie in the log.
  subject.database.prepare("PRAGMA wal_checkpoint(RESTART)").get();
  expect(subject.take()).toBe(0);
  for (const count of [1, 50, 1]) {
    subject.add(count, "new");
    expect(subject.walBytes).toBe(length);
    expect(subject.take()).toBeGreaterThan(0);
    expect(subject.take()).toBe(0);
    expectSame(subject);
  }
});

test("a torn last frame is not read before it is whole", () => {
  const subject = open();
  subject.add(10);
  subject.take();
  const start = subject.walBytes;
  subject.add(30, "torn");
  const whole = readFileSync(subject.walPath);
  expect(whole.length).toBeGreaterThan(start);
  for (const damage of [
    (bytes: Buffer) => bytes.subarray(0, whole.length - 1),
    (bytes: Buffer) => bytes.subarray(0, start + 24),
    (bytes: Buffer) => (bytes.fill(0, whole.length - 512), bytes),
    (bytes: Buffer) => (bytes.writeUInt8(bytes.readUInt8(whole.length - 100) ^ 1, whole.length - 100), bytes),
  ]) {
    writeFileSync(subject.walPath, damage(Buffer.from(whole)));
    expect(subject.take()).toBe(0);
  }
  writeFileSync(subject.walPath, whole);
  expect(subject.take()).toBeGreaterThan(0);
  expectSame(subject);
});
