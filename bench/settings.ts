/** How each system was set up, said with the figures because they mean nothing without it. */
import type { StoreName } from "./figures.ts";

const lines: Readonly<Record<StoreName, readonly string[]>> = {
  stub: ["millrace over a store that does nothing: the engine's own cost. us/job is 1,000,000 / rate."],
  sqlite: [
    "millrace: everything at its default: strict durability (synchronous = FULL), feed, fences, history and duties on.",
    "plainjob: better-sqlite3, WAL, synchronous = NORMAL (it offers no other), silent logger; latency and delayed at a poll",
    "          interval of 1 ms, idle at its default of 1,000 ms. It runs one job at a time in a process; several processes are its documented way up.",
    "openworkflow: its backend on node:sqlite, WAL, synchronous = FULL; the end of a run is taken from that backend's own write.",
    "ratio: to the fastest entry of all peers in the same group. For idle, rate is store calls per second.",
  ],
  bucket: [
    "millrace: everything at its default: each acknowledgement has landed in the bucket; feed, fences, history and duties on.",
    "millrace-sqlite: the same on a SQLite file, strict durability.",
    "puts and put bytes: per job. For idle: puts and their bytes in a minute. take-over: both writers in one process.",
    "$/million: what the puts of a million jobs cost at the default of bucket.prices, S3 Standard in US East.",
    "ratio: to the SQLite file.",
  ],
  redis: [
    "server: one Redis for all: append-only file, appendfsync everysec, no rewrite of that file while measuring; on the disk of the repository.",
    "millrace: everything at its default: feed, fences, history and duties on; finished jobs are kept.",
    "bullmq: Queue and Worker on the same driver (ioredis), finished jobs kept (removeOnComplete false, its default), no QueueEvents, no metrics.",
    "ratio: to BullMQ at the same concurrency and with as many processes. For idle, rate is commands per second that the process sends.",
    "retry: BullMQ with attempts 2 and no backoff, Millrace with a backoff of 0 and without its log. unique: BullMQ with a",
    "       deduplication id that it holds until the end.",
    "footprint: memory of the server per waiting job, its input included; the server's used_memory before and after.",
  ],
  postgres: [
    "server: one Postgres 18 for all: fsync and synchronous_commit on, shared_buffers 512 MB, max_wal_size 4 GB, checkpoint_timeout 15 min, max_connections 1000,",
    "        wal_level replica, autovacuum as it ships. A store that was filled is analysed before it is measured.",
    "millrace: everything at its default: strict durability, feed, fences, history and duties on.",
    "pg-boss: scheduling and supervision off (on for latency and idle, with LISTEN/NOTIFY); by fetch and complete of 1,000 in 3 loops, and by work()",
    "         with batches of 1,000, localConcurrency 3, burstWhenBatchFull. unique by work(), policy exclusive. Keeps finished jobs; no fence.",
    "graphile-worker: no logging; default mode, and local-queue mode: size 500 and 2,000, completeJobBatchDelay 0, failJobBatchDelay 0.",
    "         Deletes finished jobs; no fence.",
    "@dbos-inc/dbos-sdk: workflows started directly, a pool of 10 connections, no tracing, silent logger. No limit of slots.",
    "openworkflow: a pool of 10 connections; the end of a run is taken from its backend's own write, not from the handle's poll of 1 s.",
    "ratio: to the fastest entry of all peers in the same group. For idle, rate is queries per second. Latency is from another process.",
  ],
};

export function settingLines(store: StoreName): readonly string[] {
  return lines[store];
}
