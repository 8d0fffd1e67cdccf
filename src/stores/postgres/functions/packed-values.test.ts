import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hardText } from "../../../../test/support/hard-text.ts";
import { itemAt, packText, readBrief, readTexts, textList } from "./packed-values.ts";

describe("texts on their way to Postgres", () => {
  test("come back in lists, null apart from empty", () => {
    fc.assert(
      fc.property(fc.array(fc.option(hardText), { minLength: 1 }), (texts) => {
        const list = textList(texts.map((text) => (text === null ? null : packText(text))));
        expect(readTexts(list)).toEqual(texts);
      }),
    );
  });

  test("numbers come back, null apart from 0, and one item stands for as many as there are", () => {
    const read = (list: string | null, length: number) =>
      Array.from({ length }, (_, index) => itemAt(readBrief(list), index));
    expect(read("{1,NULL,0,-5}", 4)).toEqual([1, null, 0, -5]);
    expect(read("{7}", 3)).toEqual([7, 7, 7]);
    expect(read(null, 2)).toEqual([null, null]);
  });
});
