/**
 * What a live worker lets the others know: which queues it serves and which names it has handlers for. The notice is a
 * document that expires unless it is renewed, so a dead worker's notice goes by itself.
 */
import type { DocPut } from "../store/records.ts";
import { allDocs } from "./all-docs.ts";
import type { Engine } from "./engine.ts";

const noticeKind = "worker";
const noticeTtlMs = 60_000;
export const noticeEveryMs = 20_000;

export interface WorkerNotice {
  readonly queues: readonly string[];
  readonly names: readonly string[];
}

export function noticePut(owner: string, notice: WorkerNotice | null): DocPut {
  const body = notice === null ? null : JSON.stringify(notice);
  return { kind: noticeKind, id: owner, body, guard: "any", expiresInMs: noticeTtlMs };
}

/** @param passesOver leaves out those in partitions that fail, instead of failing. */
export async function readNotices(engine: Engine, passesOver = false): Promise<readonly WorkerNotice[]> {
  const notices: WorkerNotice[] = [];
  for await (const { body } of allDocs(engine.store, { kind: noticeKind, passesOver }))
    notices.push(JSON.parse(body) as WorkerNotice);
  return notices;
}
