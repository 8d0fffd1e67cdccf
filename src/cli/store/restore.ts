/**
 * `millrace restore`: puts the store of a bucket back to the end of an earlier record of its log, into a SQLite file or
 * the bucket itself. Without `--yes` it says what it would throw away, and writes nothing.
 */
import { openBucketObjects, sqlitePath } from "../../open.ts";
import type { Platform } from "../../platform/platform.ts";
import { bucketError } from "../../stores/bucket/bucket-errors.ts";
import type { Objects } from "../../stores/bucket/objects/objects.ts";
import { retrying } from "../../stores/bucket/objects/retrying.ts";
import { storeOption } from "../command.ts";
import type { Call, Command } from "../command.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import { shownUrl, storeUrl } from "./open-store.ts";
import { formatTable } from "../output/format-table.ts";
import { formatInstant } from "../output/format-time.ts";
import { toJson } from "../output/print-json.ts";
import { quote, wrong } from "../arguments/read-args.ts";
import { readPastInstant } from "../arguments/read-instant.ts";

export const restore: Command = {
  name: "restore",
  usage: "restore --until N|TIME [--to sqlite:FILE | --yes] | restore --list",
  summary: "put the store of a bucket back to an earlier moment, or copy it into a file",
  words: [0, 0],
  options: {
    ...storeOption,
    until: { value: "N|TIME", meaning: "the last record of the log to keep, or a time such as 2h (ago)" },
    to: {
      value: "sqlite:FILE",
      meaning: "into this new file instead of the bucket; without --until all of it",
    },
    yes: { meaning: "do it: from then on the bucket goes on after that record" },
    list: { meaning: "show the checkpoints and the log, with their times" },
  },
  examples: [
    "restore --list --store file:///var/lib/jobs",
    "restore --until 4711 --to sqlite:./copy.db",
    "restore --until 2h --yes",
  ],
  async run(call) {
    const { platform, options } = call;
    const url = storeUrl(call);
    if (!isBucketUrl(url)) throw wrong(`restore works on a bucket, and ${shownUrl(url)} is none`);
    if (options.has("list") && ["until", "to", "yes"].some((name) => options.has(name)))
      throw wrong("--list goes with no other option of restore");
    if (options.has("to") && options.has("yes"))
      throw wrong("--to writes a file and --yes the bucket: give one of them");
    if (!options.has("list") && !options.has("until") && !options.has("to"))
      throw wrong("give --until with a record or a time, or --list to see them");
    const objects = retrying(await openBucketObjects(platform, url, { bucket: { view: true } }), platform);
    try {
      if (options.has("list")) return await list(call, objects);
      const until = await readUntil(options, objects, platform);
      return options.has("to")
        ? await toFile(call, objects, until)
        : await inPlace(call, objects, until as number);
    } catch (error) {
      throw bucketError(error, "did-not-happen");
    } finally {
      await objects.close();
    }
  },
};

/** Null if the option was not given. */
async function readUntil(
  options: ReadonlyMap<string, string>,
  objects: Objects,
  platform: Platform,
): Promise<number | null> {
  const text = options.get("until");
  if (text === undefined) return null;
  if (/^\d{1,12}$/.test(text)) return Number(text);
  const time = readPastInstant(options, "until", platform.now()) as Date;
  const { recordAt } = await import("../../stores/bucket/restore/history.ts");
  const found = await recordAt(objects, time.getTime());
  if (found !== null) return found;
  throw wrong(`the bucket does not go back to ${quote(text)}; millrace restore --list shows how far`);
}

async function toFile({ terminal, options, wantsJson }: Call, objects: Objects, until: number | null) {
  const to = options.get("to") as string;
  if (!/^sqlite:/i.test(to) || /^sqlite::memory:$/i.test(to))
    throw wrong(`--to must name a file such as sqlite:./copy.db, not ${quote(to)}`);
  const path = sqlitePath(to);
  const { restoreToFile } = await import("../../stores/bucket/restore/restore.ts");
  const { n, at } = await restoreToFile(objects, { path, until });
  const report = { record: n, at: new Date(at), file: path };
  const told = `${path} is the store as it was after record ${n} (${formatInstant(report.at)}); the bucket is as it was`;
  terminal.writeOut(`${wantsJson ? toJson(report) : told}\n`);
  return 0;
}

async function inPlace({ terminal, platform, options, wantsJson }: Call, objects: Objects, until: number) {
  if (!options.has("yes")) {
    const { eachRecord, readHead, recordsAfter } = await import("../../stores/bucket/restore/history.ts");
    await readHead(objects);
    let count = 0;
    let last: Date | null = null;
    for await (const { record } of eachRecord(objects, await recordsAfter(objects, until))) {
      count += 1;
      if (record !== null) last = new Date(record.at);
    }
    const span = last === null ? "" : `, the last of ${formatInstant(last)}`;
    const told = `this would drop what ${count} ${count === 1 ? "record" : "records"} after record ${until} changed${span}; nothing was written. Say --yes to do it, or --to sqlite:FILE to look at it first.`;
    terminal.writeOut(`${wantsJson ? toJson({ until, records: count, last, done: false }) : told}\n`);
    return 1;
  }
  const { restoreBucket } = await import("../../stores/bucket/restore/restore.ts");
  const done = await restoreBucket(objects, { platform, until, takes: options.has("take") });
  const told = [
    `the bucket goes on after record ${done.n}; the restore itself is record ${done.record}, epoch ${done.epoch}`,
    `what the ${done.dropped} records after it changed is kept as a bucket of its own under ${done.kept}; remove it when nobody needs it`,
  ];
  terminal.writeOut(`${wantsJson ? toJson({ ...done, done: true }) : told.join("\n")}\n`);
  return 0;
}

async function list({ terminal, wantsJson }: Call, objects: Objects): Promise<number> {
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
  if (wantsJson) {
    terminal.writeOut(
      `${toJson({ marks, log: { first: log[0] ?? null, last: log.at(-1) ?? null, records: numbers.length } })}\n`,
    );
    return 0;
  }
  const time = (at: Date | null): string => (at === null ? "damaged" : formatInstant(at));
  const rows = [
    ...marks.map((mark) => ["checkpoint", String(mark.record), time(mark.at), String(mark.epoch ?? "")]),
    ...log.map((end, at) => [
      at === 0 ? "log from" : "log to",
      String(end.record),
      time(end.at),
      String(end.epoch ?? ""),
    ]),
  ];
  terminal.writeOut(
    `${formatTable([{ title: "WHAT" }, { title: "RECORD", isNumber: true }, { title: "TIME" }, { title: "EPOCH", isNumber: true }], rows)}\n`,
  );
  return 0;
}
