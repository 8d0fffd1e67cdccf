import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { jsonCodec } from "./json-codec.ts";

const nested = (levels: number, inner: unknown = 1): unknown => {
  let value = inner;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
};
const roundTrip = (value: unknown): unknown => jsonCodec.decode(jsonCodec.encode(value));
const refusalOf = (act: () => unknown): { code?: string; message?: string; cause?: unknown } => {
  try {
    act();
  } catch (error) {
    return error as { code?: string };
  }
  return {};
};

describe("encoding", () => {
  it.each<[string, unknown, string]>([
    ["a plain object", { a: 1, b: ["x", null, true], c: undefined }, '{"a":1,"b":["x",null,true]}'],
    ["an object without a prototype", Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    ["a plain object of another realm", runInNewContext('({ a: [1, "x"] })'), '{"a":[1,"x"]}'],
    ["an object with a key like a tag, in plain text", { "~date": 1 }, '{"~date":1}'],
    ["a Date", { when: new Date(0) }, '~{"when":{"~date":"1970-01-01T00:00:00.000Z"}}'],
    ["an invalid Date", new Date(Number.NaN), '~{"~date":null}'],
    ["a Date of another realm", runInNewContext("new Date(0)"), '~{"~date":"1970-01-01T00:00:00.000Z"}'],
    ["a bigint", [-12n], '~[{"~bigint":"-12"}]'],
    ["bytes", new Uint8Array([1, 2, 255]), '~{"~bytes":"AQL/"}'],
    ["a Buffer", Buffer.from("hi"), '~{"~buffer":"aGk="}'],
    ["an ArrayBuffer", new Uint8Array([1]).buffer, '~{"~arraybuffer":"AQ=="}'],
    ["a Map", new Map([["a", 1]]), '~{"~map":[["a",1]]}'],
    ["a Set", new Set(["a"]), '~{"~set":["a"]}'],
    ["undefined in a list", [undefined], '~[{"~undefined":true}]'],
    ["a hole in a list", [, 1], '~[{"~undefined":true},1]'], // oxlint-disable-line no-sparse-arrays
    ["undefined on its own", undefined, '~{"~undefined":true}'],
    [
      "numbers that JSON loses",
      [Number.NaN, -Infinity, -0],
      '~[{"~number":"NaN"},{"~number":"-Infinity"},{"~number":"-0"}]',
    ],
    [
      "a key like a tag beside a special value",
      [1n, { "~date": 1 }],
      '~[{"~bigint":"1"},{"~~":{"~date":1}}]',
    ],
  ])("writes %s", (_, value, text) => {
    expect(jsonCodec.encode(value)).toBe(text);
  });

  it("keeps extreme dates, large integers and undefined apart from null", () => {
    const value = [new Date(8.64e15), new Date(-8.64e15), new Date(-1), 2n ** 200n, undefined, null];
    expect(roundTrip(value)).toStrictEqual(value);
    expect(roundTrip(undefined)).toBeUndefined();
    expect((roundTrip(new Date(Number.NaN)) as Date).getTime()).toBeNaN();
  });

  it("gives bytes back as the kind they were", () => {
    expect(Buffer.isBuffer(roundTrip(Buffer.from("a")))).toBe(true);
    expect(Object.getPrototypeOf(roundTrip(new Uint8Array([1])))).toBe(Uint8Array.prototype);
    expect(roundTrip(new Uint8Array([1]).buffer)).toBeInstanceOf(ArrayBuffer);
    expect(roundTrip(new Uint8Array([9, 1, 2, 9]).subarray(1, 3))).toStrictEqual(new Uint8Array([1, 2]));
  });

  class Point {
    readonly x = 1;
  }
  class Stamp extends Date {}
  const cycle: Record<string, unknown> = { list: [] };
  (cycle["list"] as unknown[]).push({ back: cycle });
  const mapCycle = new Map<string, unknown>();
  mapCycle.set("self", mapCycle);

  it.each<[string, unknown, RegExp]>([
    ["a function", { items: [0, 1, 2, { when: () => 1 }] }, /^input\.items\[3\]\.when is a function: /],
    ["a symbol", { a: { "b c": Symbol("s") } }, /^input\.a\["b c"\] is a symbol: /],
    ["a class instance", [new Point()], /^input\[0\] is an instance of Point: it would lose its class/],
    ["a subclass of Date", new Stamp(0), /^input is an instance of Stamp: /],
    ["a subclass of Array", { a: new (class List extends Array {})() }, /^input\.a is an instance of List: /],
    [
      "an object with toJSON",
      { site: new URL("http://127.0.0.1/") },
      /^input\.site is an instance of URL: .*toJSON\(\)/,
    ],
    [
      "an Error",
      { cause: new TypeError("no") },
      /^input\.cause is an instance of TypeError: pass its name and message/,
    ],
    [
      "an Error of another realm",
      runInNewContext("new Error('no')"),
      /^input is an instance of Error: pass its name/,
    ],
    [
      "a typed array that is not bytes",
      new Float64Array(1),
      /^input is an instance of Float64Array: pass its bytes/,
    ],
    ["shared memory", new SharedArrayBuffer(1), /^input is an instance of SharedArrayBuffer: /],
    ["a function in a Map", { m: new Map([["k", () => 1]]) }, /^input\.m<value 0> is a function: /],
    ["a symbol in a Set", new Set([1, Symbol("s")]), /^input<item 1> is a symbol: /],
    ["a cycle", { a: cycle }, /^input\.a\.list\[0\]\.back contains itself: /],
    ["a cycle through a Map", mapCycle, /^input<value 0> contains itself: /],
    ["too deep a value", nested(201), /^input(\[0\]){200} is nested deeper than 200 levels: /],
    ["too deep a tagged value", nested(201, 1n), /^input(\[0\]){200} is nested deeper than 200 levels: /],
  ])("refuses %s by its path", (_, value, message) => {
    const refusal = refusalOf(() => jsonCodec.encode(value, "input"));
    expect(refusal.code).toBe("payload-not-encodable");
    expect(refusal.message).toMatch(message);
  });

  it("shortens a long key in a message and escapes what cannot be printed", () => {
    const { message } = refusalOf(() => jsonCodec.encode({ ["\0" + "k".repeat(5000)]: () => 1 }, "input"));
    expect(message).toMatch(/^input\["\\u0000k{63}\.\.\."\] is a function/);
  });

  it("takes 200 levels, plain and tagged", () => {
    expect(roundTrip(nested(200))).toStrictEqual(nested(200));
    expect(roundTrip(nested(200, 1n))).toStrictEqual(nested(200, 1n));
  });

  it("refuses a small value that repeats itself into a huge text, before it builds the text", () => {
    let plain: unknown = "x".repeat(1000);
    for (let level = 0; level < 60; level++) plain = [plain, plain];
    expect(refusalOf(() => jsonCodec.encode(plain, "input", 1_000_000)).code).toBe("payload-too-large");
    let tagged: unknown = [1n];
    for (let level = 0; level < 60; level++) tagged = { a: tagged, b: tagged };
    expect(refusalOf(() => jsonCodec.encode(tagged, "input", 1_000_000)).code).toBe("payload-too-large");
  });

  it("encodes own properties alone when somebody has extended Object.prototype", () => {
    const everyObject = Object.prototype as { extra?: unknown };
    everyObject.extra = () => 1;
    try {
      expect(roundTrip({ a: 1 })).toStrictEqual({ a: 1 });
    } finally {
      delete everyObject.extra;
    }
  });

  it("reports a getter that throws as not encodable, with its error as the cause", () => {
    const cause = new Error("no");
    const value = {
      get a(): unknown {
        throw cause;
      },
    };
    expect(refusalOf(() => jsonCodec.encode(value, "input"))).toMatchObject({
      code: "payload-not-encodable",
      cause,
    });
  });
});

describe("decoding", () => {
  it("survives a megabyte of brackets, open or closed, plain or tagged", () => {
    const half = 512 * 1024;
    expect(refusalOf(() => jsonCodec.decode("[".repeat(2 * half))).code).toBe("payload-unreadable");
    expect(refusalOf(() => jsonCodec.decode('{"a":'.repeat(half / 4))).code).toBe("payload-unreadable");
    expect(Array.isArray(jsonCodec.decode("[".repeat(half) + "]".repeat(half)))).toBe(true);
    expect(refusalOf(() => jsonCodec.decode("~" + "[".repeat(2 * half))).code).toBe("payload-unreadable");
    expect(refusalOf(() => jsonCodec.decode("~" + "[".repeat(half) + "]".repeat(half))).code).toBe(
      "payload-unreadable",
    );
    expect(refusalOf(() => jsonCodec.decode("~" + '{"~set":['.repeat(999) + "]}".repeat(999))).code).toBe(
      "payload-unreadable",
    );
  });

  it.each([
    ["nothing", ""],
    ["no JSON", "secret-token"],
    ["only a tilde", "~"],
    ["an unknown tag", '~{"~later":1}'],
    ["a damaged bigint", '~{"~bigint":"1x"}'],
    ["a damaged date", '~{"~date":"soon"}'],
    ["damaged base64", '~{"~bytes":"a*b="}'],
    ["a damaged Map", '~{"~map":[[1]]}'],
    ["an escape without a tag inside", '~{"~~":{"a":1}}'],
    ["bytes", new Uint8Array([123, 125])],
  ])("calls %s unreadable without quoting it", (_, payload) => {
    const refusal = refusalOf(() => jsonCodec.decode(payload));
    expect(refusal.code).toBe("payload-unreadable");
    expect(refusal.message).not.toContain("secret");
    expect(refusal.cause).toBeUndefined();
  });

  it.each(["", "~"])("makes __proto__ an own property (prefix %j) and pollutes nothing", (prefix) => {
    const back = jsonCodec.decode(
      `${prefix}{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}`,
    ) as object;
    expect(Object.keys(back)).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });

  it("keeps __proto__ an own property when its value is a special one", () => {
    const value = Object.fromEntries([["__proto__", new Map([["isAdmin", true]])]]);
    const back = roundTrip(value) as object;
    expect(Object.getOwnPropertyDescriptor(back, "__proto__")?.value).toEqual(new Map([["isAdmin", true]]));
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
  });
});
