/**
 * `millrace restore`: puts the store of a bucket back to the end of an earlier record of its log, into a SQLite file or
 * the bucket itself. Without `--yes` it says what it would throw away, and writes nothing.
 */
import { openBucketObjects, sqlitePath } from "../../open.ts";
import { bucketError } from "../../stores/bucket/bucket-errors.ts";
import type { Objects } from "../../stores/bucket/objects/objects.ts";
import { retrying } from "../../stores/bucket/objects/retrying.ts";
import { flag, text } from "../arguments/option-kinds.ts";
import type { Option, ValuesOf } from "../arguments/option-kinds.ts";
import { readPastInstant } from "../arguments/read-instant.ts";
import { quote, wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import type { Call } from "../command.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import { shownUrl, storeUrl } from "./open-store.ts";
import { formatTable } from "../output/format-table.ts";
import { formatInstant } from "../output/format-time.ts";

/** A record by its number, or the last one before a time. */
const until: Option<number | Date> = {
  value: "N|TIME",
  meaning: "the last record of the log to keep, or a time such as 2h (ago)",
  read: (given, name, platform) =>
    /^\d{1,12}$/.test(given) ? Number(given) : readPastInstant(given, name, platform.now()),
};
const options = {
  until,
  to: text("sqlite:FILE", "into this new file instead of the bucket; without --until all of it"),
  yes: flag("do it: from then on the bucket goes on after that record"),
  list: flag("show the checkpoints and the log, with their times"),
};
type RestoreCall = Call<ValuesOf<typeof options>>;

export const restore = command({
  name: "restore",
  summary: "put the store of a bucket back to an earlier moment, or copy it into a file",
  options,
  examples: [
    "restore --list --store file:///var/lib/jobs",
    "restore --until 4711 --to sqlite:./copy.db",
    "restore --until 2h --yes",
  ],
  async run(call) {
    const { platform, options: given } = call;
    const url = storeUrl(call);
    if (!isBucketUrl(url)) throw wrong(`restore works on a bucket, and ${shownUrl(url)} is none`);
    if (given.list && Object.keys(given).length > 1)
      throw wrong("--list goes with no other option of restore");
    if (given.to !== undefined && given.yes)
      throw wrong("--to writes a file and --yes the bucket: give one of them");
    if (!given.list && given.until === undefined && given.to === undefined)
      throw wrong("give --until with a record or a time, or --list to see them");
    const objects = retrying(await openBucketObjects(platform, url, { bucket: { view: true } }), platform);
    try {
      if (given.list) return await list(call, objects);
      const record = await recordOf(given.until ?? null, objects);
      return given.to === undefined
        ? await inPlace(call, objects, record as number)
        : await toFile(call, objects, given.to, record);
    } catch (error) {
      throw bucketError(error, "did-not-happen");
    } finally {
      await objects.close();
    }
  },
});

async function recordOf(given: number | Date | null, objects: Objects): Promise<number | null> {
  if (!(given instanceof Date)) return given;
  const { recordAt } = await import("../../stores/bucket/restore/history.ts");
  const found = await recordAt(objects, given.getTime());
  if (found !== null) return found;
  throw wrong(
    `the bucket does not go back to ${formatInstant(given)}; millrace restore --list shows how far`,
  );
}

async function toFile({ answer }: RestoreCall, objects: Objects, to: string, record: number | null) {
  if (!/^sqlite:/i.test(to) || /^sqlite::memory:$/i.test(to))
    throw wrong(`--to must name a file such as sqlite:./copy.db, not ${quote(to)}`);
  const path = sqlitePath(to);
  const { restoreToFile } = await import("../../stores/bucket/restore/restore.ts");
  const { n, at } = await restoreToFile(objects, { path, until: record });
  const report = { record: n, at: new Date(at), file: path };
  answer(
    report,
    `${path} is the store as it was after record ${n} (${formatInstant(report.at)}); the bucket is as it was`,
  );
}

async function inPlace(
  { platform, store, options: { yes }, answer }: RestoreCall,
  objects: Objects,
  record: number,
) {
  if (!yes) {
    const { eachRecord, readHead, recordsAfter } = await import("../../stores/bucket/restore/history.ts");
    await readHead(objects);
    let count = 0;
    let last: Date | null = null;
    for await (const each of eachRecord(objects, await recordsAfter(objects, record))) {
      count += 1;
      if (each.record !== null) last = new Date(each.record.at);
    }
    const span = last === null ? "" : `, the last of ${formatInstant(last)}`;
    answer(
      { until: record, records: count, last, done: false },
      `this would drop what ${count} ${count === 1 ? "record" : "records"} after record ${record} changed${span}; nothing was written. Say --yes to do it, or --to sqlite:FILE to look at it first.`,
    );
    return 1;
  }
  const { restoreBucket } = await import("../../stores/bucket/restore/restore.ts");
  const done = await restoreBucket(objects, { platform, until: record, takes: store.take === true });
  const sentences = [
    `the bucket goes on after record ${done.n}; the restore itself is record ${done.record}, epoch ${done.epoch}`,
    `what the ${done.dropped} records after it changed is kept as a bucket of its own under ${done.kept}; delete it when nobody needs it`,
  ];
  answer({ ...done, done: true }, sentences.join("\n"));
}

async function list({ answer }: RestoreCall, objects: Objects): Promise<void> {
  const { eachRecord, listRecords, readHead, readMarks } =
    await import("../../stores/bucket/restore/history.ts");
  await readHead(objects);
  const marks = (await readMarks(objects)).map(({ through, mark }) => ({
    record: through,
    at: mark === null ? null : new Date(mark.at),
    pages: mark?.pageCount ?? null,
    epoch: mark?.epoch ?? null,
  }));
  const numbers = await listRecords(objects, 1);
  const ends = [...new Set([numbers[0], numbers.at(-1)])].filter((n) => n !== undefined);
  const log: { record: number; at: Date | null; kind: string; epoch: number | null }[] = [];
  for await (const { n, record } of eachRecord(objects, ends))
    log.push({
      record: n,
      at: record === null ? null : new Date(record.at),
      kind: record?.kind ?? "damaged",
      epoch: record?.epoch ?? null,
    });
  const time = (at: Date | null): string => (at === null ? "damaged" : formatInstant(at));
  const lines = [
    ...marks.map((mark) => ["checkpoint", String(mark.record), time(mark.at), String(mark.epoch ?? "")]),
    ...log.map((end, at) => [
      at === 0 ? "log from" : "log to",
      ...[String(end.record), time(end.at), String(end.epoch ?? "")],
    ]),
  ];
  const columns = [
    { title: "WHAT" },
    { title: "RECORD", isNumber: true },
    { title: "TIME" },
    { title: "EPOCH", isNumber: true },
  ];
  answer(
    { marks, log: { first: log[0] ?? null, last: log.at(-1) ?? null, records: numbers.length } },
    formatTable(columns, lines),
  );
}
