/** Texts come back as they were given: a store keeps payloads and notes unread, whatever they hold. */
import { expect } from "vitest";
import { aChange, aDoc, aJob, aSettle, finish } from "../../../support/builders.ts";
import type { ContractCase, ContractGroup } from "../../subject.ts";

const texts: readonly (readonly [what: string, text: string])[] = [
  ["empty", ""],
  ["with a NUL inside", "before\0after"],
  ["a NUL alone", "\0"],
  ["with line breaks, tabs and other controls", "a\r\n\tb\u001b[31m\u007f\u2028"],
  ["that looks like JSON, SQL or a number", `{"a":"'; --"} 1e999 NULL`],
  ["with characters of one to four bytes", "aé名🙂\u{10ffff}"],
  ["longer than a page of storage", "0123456789".repeat(2000)],
];

function keeps([what, text]: readonly [string, string]): ContractCase {
  return [
    `a text ${what} comes back as it was given, from every place that holds texts`,
    async ({ store, lease, read }) => {
      const docs = [aDoc("d", text)];
      await store.submit([{ jobs: [aJob({ id: "f", queue: "other" })], docs }]);
      const leased = await lease(aJob({ id: "a", input: text, policy: text, meta: text }));
      expect(leased).toMatchObject({ input: text, policy: text, meta: text });
      await store.recordIfLeased([{ ...leased, progress: text, logs: [text, "between", text] }]);
      const next = finish("failed", { reason: text, result: text });
      expect(await store.settleIfLeased([aSettle(leased, next, { attempts: text })])).toEqual([
        { kind: "ok" },
      ]);
      const held = {
        input: text,
        policy: text,
        meta: text,
        progress: text,
        attempts: text,
        reason: text,
        result: text,
      };
      expect(await read("a")).toMatchObject(held);
      const { lines } = await store.readLogs({ id: "a", after: 0, max: 9 });
      expect(lines.map(({ body }) => body)).toEqual([text, "between", text]);
      expect((await store.readDocs({ kind: "kv", ids: ["d"] })).docs).toMatchObject([{ body: text }]);
      const edit = { input: text, policy: text, meta: text };
      await store.changeIf([aChange("f", ["ready"], { to: "same", event: "edited", edit })]);
      expect(await read("f")).toMatchObject(edit);
      const [again] = await store.changeIf([aChange("f", ["ready"], finish("cancelled", { reason: text }))]);
      expect(again?.kind).toBe("ok");
      expect(await read("f")).toMatchObject({ ...edit, reason: text });
    },
  ];
}

export const textCases: ContractGroup = {
  about: "texts",
  cases: [
    ...texts.map(keeps),
    [
      "results of jobs that end together do not mix",
      async ({ store, submit, claim, read }) => {
        await submit(...texts.map((_, index) => aJob({ id: `j${index}` })));
        const jobs = await claim({ max: 20 });
        const settles = jobs.map((job, index) =>
          aSettle(job, finish("completed", { result: texts[index]?.[1] ?? null })),
        );
        expect(await store.settleIfLeased(settles)).toEqual(texts.map(() => ({ kind: "ok" })));
        for (const [index, [, text]] of texts.entries()) expect((await read(`j${index}`)).result).toBe(text);
      },
    ],
  ],
};
