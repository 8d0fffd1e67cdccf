import fc from "fast-check";
import { expect, test } from "vitest";
import { hardText } from "../../test/support/hard-text.ts";
import { packText, unpackText } from "./packed-text.ts";

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
