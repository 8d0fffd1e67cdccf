/**
 * The heartbeat of a process: documents are put, then read, with the routes that have ready jobs and the next clock.
 */
import { expect } from "vitest";
import { aDoc, aJob, aRoute } from "../../../support/builders.ts";
import { startAt } from "../../../support/virtual/held-platform.ts";
import type { ContractGroup } from "../../subject.ts";
import { byRank, grouped } from "../laned-jobs.ts";

const prefix = "{registry}";
const own = `${prefix}own`;
const other = `${prefix}other`;
const gone = `${prefix}gone`;
const none = { kind: "kv", ids: [own] };

export const heartbeatCases: ContractGroup = {
  about: "a heartbeat",
  cases: [
    [
      "puts documents under their guards and reads after the puts",
      async ({ store }) => {
        await store.putDocs([aDoc(other, "theirs"), aDoc(own, "1")]);
        const puts = [
          aDoc(own, "2", { guard: { version: 1 }, expiresInMs: 50 }),
          aDoc(other, "mine", { guard: "absent" }),
        ];
        const answer = await store.heartbeat({ puts, read: { kind: "kv", ids: [own, gone, other] } });
        expect(answer).toEqual({
          puts: [
            { kind: "ok", version: 2 },
            { kind: "changed", version: 1 },
          ],
          read: {
            docs: [
              { kind: "kv", id: other, version: 1, body: "theirs", dueAt: null, expiresAt: null },
              { kind: "kv", id: own, version: 2, body: "2", dueAt: null, expiresAt: startAt + 50 },
            ],
            cursor: null,
          },
          ready: [],
          nextDueInMs: null,
          now: startAt,
        });
        const { docs } = await store.readDocs({ kind: "kv", ids: [own] });
        expect(docs.map(({ body }) => body)).toEqual(["2"]);
      },
    ],
    [
      "that puts nothing reads a page by prefix with a cursor",
      async ({ store, platform }) => {
        const ids = ["1", "2", "3", "4"].map((number) => prefix + number);
        await store.putDocs([...ids.map((id) => aDoc(id, "x")), aDoc(`${prefix}0`, "x", { expiresInMs: 1 })]);
        platform.advance(1);
        const page = async (after: string | null, max: number): Promise<unknown> => {
          const { puts, read } = await store.heartbeat({
            puts: [],
            read: { kind: "kv", prefix, after, max },
          });
          expect(puts).toEqual([]);
          return [read.docs.map(({ id }) => id), read.cursor];
        };
        expect(await page(null, 3)).toEqual([ids.slice(0, 3), ids[2]]);
        expect(await page(ids[2] as string, 3)).toEqual([ids.slice(3), null]);
        expect(await page(null, 4)).toEqual([ids, null]);
        expect(await store.heartbeat({ puts: [], read: { kind: "kv", ids: [] } })).toMatchObject({
          read: { docs: [], cursor: null },
        });
      },
    ],
    [
      "emits what its puts emit, and knows the due time of a document that it has put",
      async ({ store, events }) => {
        const puts = [
          aDoc(own, "1", { due: { inMs: 70 } }),
          aDoc(other, "1", { emits: { kind: "worker-left", subject: other, extra: null } }),
          aDoc(other, "2", {
            guard: "absent",
            emits: { kind: "worker-left", subject: "refused", extra: null },
          }),
        ];
        const answer = await store.heartbeat({ puts, read: none });
        expect(answer.nextDueInMs).toBe(70);
        expect(answer.puts.map(({ kind }) => kind)).toEqual(["ok", "ok", "changed"]);
        expect((await events()).map(({ kind, id }) => [kind, id])).toEqual([["worker-left", other]]);
      },
    ],
    [
      "names the routes that have ready jobs, and takes none of them",
      async ({ store, submit, claim, read }) => {
        const ready = async (): Promise<readonly number[]> =>
          (await store.heartbeat({ puts: [], read: none })).ready;
        const isWhole = (store.partitions ?? 1) === 1;
        await submit(aJob({ id: "later", name: "later", due: { inMs: 1000 } }), aJob({ id: "a" }));
        expect(await ready()).toEqual([aRoute()]);
        expect((await read("a")).state).toBe("ready");
        expect(await claim()).toHaveLength(1);
        // Over partitions a route is named for as long as one of them may have a job of it.
        if (isWhole) expect(await ready()).toEqual([]);
      },
    ],
    [
      "names the route of a job that waits in its lane",
      async ({ store, submit, claim }) => {
        await submit(grouped("a", "one"), grouped("b", "one"));
        const jobs = await claim({ offers: [{ routes: [byRank], max: 5 }] });
        expect(jobs.map(({ id }) => id)).toEqual(["a"]);
        const { ready } = await store.heartbeat({ puts: [], read: none });
        expect(ready).toEqual([byRank]);
      },
    ],
  ],
};
