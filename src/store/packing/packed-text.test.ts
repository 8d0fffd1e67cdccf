import fc from "fast-check";
import { expect, test } from "vitest";
import { hardText } from "../../../test/support/hard-text.ts";
import { fieldEnd, itemEnd, packItems, packJoined, packText, unpackText } from "./packed-text.ts";

test("a packed text comes back as given, whatever it holds, and is storable in between", () => {
  fc.assert(
    fc.property(hardText, (text) => {
      const packed = packText(text);
      expect(packed).not.toMatch(/[\0\x02\x1e\x1f]/);
      expect(packed).not.toBe("");
      expect(packed.isWellFormed()).toBe(true);
      expect(unpackText(packed)).toBe(text);
    }),
  );
});

test("texts that are packed together are each packed as alone", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(hardText, fc.string({ minLength: 1 })), { minLength: 1 }), (texts) => {
      expect(packJoined(texts)).toBe(texts.map(packText).join(fieldEnd));
      expect(packItems(texts)).toBe(texts.map(packText).join(itemEnd));
    }),
  );
  expect(packItems(["a\x1eb", "c"])).toBe("a\x01001eb\x1ec");
  expect(packItems(["a\x1fb", "", "c"])).toBe("a\x01001fb\x1e\x01e\x1ec");
});
