import { deepStrictEqual } from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalText } from "./digest.ts";
import { jsonCodec } from "./json-codec.ts";
import { createPayloadCoder, type PayloadOptions } from "./payload.ts";
import { redact } from "./redact.ts";

const encryption = {
  current: "k2",
  keys: { k1: new Uint8Array(32).fill(1), k2: new Uint8Array(32).fill(2) },
};
const compression = { thresholdBytes: 0 };

/** Any sequence of UTF-16 units: NUL, lone surrogates, quotes and controls included. */
const anyString = fc.oneof(
  fc.string({ unit: "binary" }),
  fc
    .array(
      fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0, 0x22, 0x5c, 0x7e, 0xd800, 0xdfff)),
    )
    .map((units) => String.fromCharCode(...units)),
);
const anyKey = fc.oneof(
  anyString,
  fc.constantFrom("__proto__", "constructor", "prototype", "toString", "~", "~~", "~date", "~map", "a", "0"),
);

function objectOf<T>(values: fc.Arbitrary<T>): fc.Arbitrary<Record<string, T>> {
  return fc.array(fc.tuple(anyKey, values), { maxLength: 4 }).map((entries) => Object.fromEntries(entries));
}

/** Everything that a payload may carry, except undefined on its own, which stands in lists, Maps and Sets only. */
const { storable } = fc.letrec<{ storable: unknown; item: unknown; single: unknown }>((tie) => ({
  item: fc.oneof({ weight: 6, arbitrary: tie("storable") }, { weight: 1, arbitrary: fc.constant(undefined) }),
  single: fc.oneof(
    anyString,
    fc.double(),
    fc.integer(),
    fc.constantFrom(null, true, false, -0),
    fc.bigInt(),
    fc.date({ noInvalidDate: true }),
    fc.uint8Array(),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc.uint8Array().map((bytes) => new Uint8Array(bytes).buffer),
  ),
  storable: fc.oneof(
    { maxDepth: 5 },
    tie("single"),
    fc.array(tie("item"), { maxLength: 4 }),
    objectOf(tie("storable")),
    fc.array(fc.tuple(tie("item"), tie("item")), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(tie("item"), { maxLength: 4 }).map((items) => new Set(items)),
  ),
}));

const { plain } = fc.letrec<{ plain: unknown }>((tie) => ({
  plain: fc.oneof(
    { maxDepth: 4 },
    anyString,
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
    fc.constantFrom(null, true, false),
    fc.array(tie("plain"), { maxLength: 5 }),
    objectOf(tie("plain")),
  ),
}));

/** Object keys and Map and Set entries in reverse order: another way to write the same value. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (value instanceof Map)
    return new Map([...value].reverse().map(([key, item]) => [reversed(key), reversed(item)]));
  if (value instanceof Set) return new Set([...value].reverse().map(reversed));
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype)
    return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, item]) => [key, reversed(item)]),
  );
}

describe("any value a payload may carry", () => {
  it.each<[string, PayloadOptions, RegExp]>([
    ["as it is", {}, /^[{~]/],
    ["through encryption", { encryption }, /^!k2:/],
    ["through compression", { compression }, /^%/],
    ["through compression and encryption", { compression, encryption }, /^!k2:/],
  ])("comes back deeply equal %s, as text that every store can hold", (_, options, start) => {
    const coder = createPayloadCoder(options);
    const padding = " ".repeat(500); // so that compression always shrinks it
    fc.assert(
      fc.property(storable, (value) => {
        const payload = coder.encode({ value, padding }, "input");
        expect(payload).toMatch(start);
        expect(payload.isWellFormed() && !payload.includes("\0")).toBe(true);
        deepStrictEqual(coder.decode(payload), { value, padding });
        deepStrictEqual(coder.decode(coder.encode(value, "input")), value);
      }),
    );
  });

  it("keeps every property an own one and leaves the prototypes as they were", () => {
    const before = Object.getOwnPropertyNames(Object.prototype);
    const kinds = [Object, Array, Map, Set, Date, ArrayBuffer];
    const prototypes: object[] = kinds.map((kind) => kind.prototype);
    const check = (back: unknown): void => {
      if (back instanceof Map || back instanceof Set) back.forEach((item) => check(item));
      if (typeof back !== "object" || back === null || ArrayBuffer.isView(back)) return;
      expect(prototypes.includes(Object.getPrototypeOf(back) as object)).toBe(true);
      for (const item of Object.values(back)) check(item);
    };
    fc.assert(fc.property(storable, (value) => check(jsonCodec.decode(jsonCodec.encode(value)))));
    expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(before);
  });

  it("is never changed by encoding or redacting", () => {
    fc.assert(
      fc.property(storable, (value) => {
        const before = canonicalText(value);
        jsonCodec.encode(value);
        redact(value, ["*.*", "a", "__proto__", "constructor.prototype"]);
        expect(canonicalText(value)).toBe(before);
      }),
    );
  });

  it("has one canonical text however its keys and entries are ordered, and another one for another value", () => {
    fc.assert(fc.property(storable, (value) => canonicalText(reversed(value)) === canonicalText(value)));
    fc.assert(
      fc.property(storable, storable, (one, other) => {
        expect(canonicalText(one) === canonicalText(other)).toBe(isDeepStrictEqual(one, other));
      }),
    );
  });
});

describe("plain JSON values", () => {
  it("encode to exactly what JSON.stringify makes of them", () => {
    fc.assert(
      fc.property(plain, (value) => {
        expect(jsonCodec.encode(value)).toBe(JSON.stringify(value));
        deepStrictEqual(jsonCodec.decode(JSON.stringify(value)), value);
      }),
    );
  });
});

describe("hostile payloads", () => {
  const coder = createPayloadCoder({ encryption, compression });

  it("end in a value or in payload-unreadable or unknown-key, whatever the text", () => {
    const prefix = fc.constantFrom(
      "",
      "~",
      "%",
      "!k1:",
      "!",
      "=json:",
      "=",
      '~{"~map":',
      '~{"~date":',
      '~{"~~":',
    );
    fc.assert(
      fc.property(prefix, fc.oneof(anyString, fc.json(), fc.base64String()), (start, rest) => {
        try {
          coder.decode(start + rest);
        } catch (error) {
          expect((error as { code?: unknown }).code).toMatch(/^(payload-unreadable|unknown-key)$/);
        }
      }),
    );
  });
});
