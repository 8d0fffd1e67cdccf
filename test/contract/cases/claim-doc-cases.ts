/** Documents that travel with a claim: put, and read behind the puts, in the step of the claim. */
import { expect } from "vitest";
import { aClaim, aDoc, aJob } from "../../support/builders.ts";
import { startAt } from "../../support/held-platform.ts";
import type { ContractGroup } from "../subject.ts";

const prefix = "{registry}";
const own = `${prefix}own`;
const other = `${prefix}other`;
const gone = `${prefix}gone`;

export const claimDocCases: ContractGroup = {
  about: "a claim with documents",
  cases: [
    [
      "takes jobs, puts documents under their guards and reads behind the puts",
      async ({ store, submit }) => {
        await submit(aJob({ id: "a" }));
        await store.putDocs([aDoc(other, "theirs"), aDoc(own, "1")]);
        const puts = [
          aDoc(own, "2", { guard: { version: 1 }, expiresInMs: 50 }),
          aDoc(other, "mine", { guard: "absent" }),
        ];
        const answer = await store.claim(
          aClaim({ docs: { puts, read: { kind: "kv", ids: [own, gone, other] } } }),
        );
        expect(answer.jobs.map(({ id }) => id)).toEqual(["a"]);
        expect(answer.docs).toEqual({
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
        });
        const { docs } = await store.readDocs({ kind: "kv", ids: [own] });
        expect(docs.map(({ body }) => body)).toEqual(["2"]);
      },
    ],
    [
      "without offers takes no job, and reads a page by prefix with a cursor",
      async ({ store, submit, read, platform }) => {
        await submit(aJob({ id: "a" }));
        const ids = ["1", "2", "3", "4"].map((number) => prefix + number);
        await store.putDocs([...ids.map((id) => aDoc(id, "x")), aDoc(`${prefix}0`, "x", { expiresInMs: 1 })]);
        platform.advance(1);
        const page = async (after: string | null, max: number): Promise<unknown> => {
          const claim = aClaim({
            offers: [],
            docs: { puts: [], read: { kind: "kv", prefix, after, max } },
          });
          const { jobs, docs } = await store.claim(claim);
          expect(jobs).toEqual([]);
          return [docs?.read?.docs.map(({ id }) => id), docs?.read?.cursor];
        };
        expect(await page(null, 3)).toEqual([ids.slice(0, 3), ids[2]]);
        expect(await page(ids[2] as string, 3)).toEqual([ids.slice(3), null]);
        expect(await page(null, 4)).toEqual([ids, null]);
        expect((await read("a")).state).toBe("ready");
      },
    ],
    [
      "tells what its puts tell, and knows the due time of a document that it has put",
      async ({ store, events }) => {
        const puts = [
          aDoc(own, "1", { due: { inMs: 70 } }),
          aDoc(other, "1", { tells: { kind: "rung", subject: other, extra: null } }),
          aDoc(other, "2", { guard: "absent", tells: { kind: "rung", subject: "refused", extra: null } }),
        ];
        const { nextDueInMs, docs } = await store.claim(aClaim({ docs: { puts, read: null } }));
        expect({ nextDueInMs, docs }).toEqual({
          nextDueInMs: 70,
          docs: {
            puts: [
              { kind: "ok", version: 1 },
              { kind: "ok", version: 1 },
              { kind: "changed", version: 1 },
            ],
            read: null,
          },
        });
        expect((await events()).map(({ kind, id }) => [kind, id])).toEqual([["rung", other]]);
      },
    ],
    [
      "that neither puts nor reads anything answers so",
      async ({ store }) => {
        const read = { kind: "kv", ids: [] };
        expect((await store.claim(aClaim({ docs: { puts: [], read } }))).docs).toEqual({
          puts: [],
          read: { docs: [], cursor: null },
        });
        expect((await store.claim(aClaim())).docs).toBeUndefined();
      },
    ],
    [
      "leaves the next claim without documents as it was",
      async ({ store, submit, claim }) => {
        await submit(aJob({ id: "a" }), aJob({ id: "b" }));
        await store.claim(
          aClaim({ max: 1, docs: { puts: [aDoc(own, null)], read: { kind: "kv", ids: [own] } } }),
        );
        expect((await claim()).map(({ id }) => id)).toEqual(["b"]);
      },
    ],
  ],
};
