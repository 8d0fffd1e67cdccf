import { inspect } from "node:util";
import { deflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { isMillraceError } from "../model/error.ts";
import type { Codec } from "./codec.ts";
import { digestText } from "./digest.ts";
import { createPayloadCoder, type PayloadOptions } from "./payload.ts";

const hexKey = "0f".repeat(32);
const keys = { k1: hexKey, k2: Buffer.alloc(32, 7).toString("base64"), k3: new Uint8Array(32).fill(9) };
const encryption = { current: "k2", keys };
const card = { number: "4111-1111" };

const codeOf = (act: () => unknown): string | undefined => {
  try {
    act();
  } catch (error) {
    return isMillraceError(error) ? error.code : String(error);
  }
  return undefined;
};
const bytesCodec: Codec = {
  name: "bytes",
  encode: (value) => new TextEncoder().encode(JSON.stringify(value)),
  decode: (payload) => JSON.parse(new TextDecoder().decode(payload as Uint8Array)),
};
const textCodec: Codec = { name: "text-2", encode: (value) => String(value), decode: (payload) => payload };

describe("the size limit", () => {
  it("is 1 MiB by default and counts UTF-8 bytes", () => {
    const coder = createPayloadCoder();
    const largest = "x".repeat(1024 * 1024 - 2);
    expect(coder.decode(coder.encode(largest, "input"))).toBe(largest);
    expect(codeOf(() => coder.encode(largest + "x", "input"))).toBe("payload-too-large");
    expect(codeOf(() => coder.encode("€".repeat(350_000), "input"))).toBe("payload-too-large");
  });

  it("says which value is too large, its size and the limit", () => {
    const coder = createPayloadCoder({ maxBytes: 10 });
    expect(() => coder.encode("€€€", "result")).toThrow("The result takes 11 bytes and the limit is 10");
    expect(() => coder.encode("x".repeat(100), "result")).toThrow(
      "The result takes more than 10 bytes and the limit is 10",
    );
    expect(coder.encode("12345678", "result")).toBe('"12345678"');
  });

  it("holds before compression, after encryption and for custom codecs", () => {
    const value = "x".repeat(120);
    expect(
      codeOf(() =>
        createPayloadCoder({ maxBytes: 100, compression: { thresholdBytes: 0 } }).encode(value, "input"),
      ),
    ).toBe("payload-too-large");
    expect(codeOf(() => createPayloadCoder({ maxBytes: 130, encryption }).encode(value, "input"))).toBe(
      "payload-too-large",
    );
    expect(
      codeOf(() => createPayloadCoder({ maxBytes: 130, codec: bytesCodec }).encode(value, "input")),
    ).toBe("payload-too-large");
    expect(codeOf(() => createPayloadCoder({ maxBytes: 120, codec: textCodec }).encode(value, "input"))).toBe(
      "payload-too-large",
    );
  });
});

describe("custom codecs", () => {
  it("are named in the payload, as base64 for bytes and as text for text", () => {
    const forBytes = createPayloadCoder({ codec: bytesCodec });
    expect(forBytes.encode([1], "input")).toBe("=bytes:WzFd");
    expect(forBytes.decode("=bytes:WzFd")).toEqual([1]);
    const forText = createPayloadCoder({ codec: textCodec });
    expect(forText.encode("!%~ü", "input")).toBe("=text-2=!%~ü");
    expect(forText.decode("=text-2=!%~ü")).toBe("!%~ü");
  });

  it("read plain and tagged JSON written before them, and are refused by name elsewhere", () => {
    const coder = createPayloadCoder({ codec: bytesCodec });
    expect(coder.decode('{"a":1}')).toEqual({ a: 1 });
    expect(coder.decode('~{"~bigint":"1"}')).toBe(1n);
    expect(() => createPayloadCoder().decode("=bytes:WzFd")).toThrow("written by the codec bytes");
  });

  it("pass through compression and encryption", () => {
    const coder = createPayloadCoder({ codec: bytesCodec, compression: {}, encryption });
    const value = ["x".repeat(5000)];
    expect(coder.decode(coder.encode(value, "input"))).toEqual(value);
  });

  it("that throw, or return what no store can hold, are refused with a code", () => {
    const failing = (encode: Codec["encode"]) => () =>
      createPayloadCoder({ codec: { name: "odd", encode, decode: () => 0 } }).encode(1, "input");
    expect(codeOf(failing(() => "\0"))).toBe("payload-not-encodable");
    expect(codeOf(failing(() => "\ud800"))).toBe("payload-not-encodable");
    expect(codeOf(failing(() => 5 as unknown as string))).toBe("payload-not-encodable");
    expect(
      codeOf(
        failing(() => {
          throw new Error("no");
        }),
      ),
    ).toBe("payload-not-encodable");
    expect(codeOf(() => createPayloadCoder({ codec: bytesCodec }).decode("=bytes:e3s="))).toBe(
      "payload-unreadable",
    );
  });
});

describe("compression", () => {
  const coder = createPayloadCoder({ compression: {} });

  it("leaves short values and values that do not shrink readable", () => {
    expect(coder.encode({ a: "x".repeat(900) }, "input")).toMatch(/^\{"a":"xxx/);
    const noise = Array.from({ length: 100 }, (_, index) => digestText(String(index))).join("");
    expect(createPayloadCoder({ compression: { level: 9 } }).encode(noise, "input")[0]).toBe('"');
  });

  it("shortens long values, which a reader without compression can read", () => {
    const value = { list: Array.from({ length: 500 }, (_, id) => ({ id, name: "a name" })) };
    const payload = coder.encode(value, "input");
    expect(payload[0]).toBe("%");
    expect(payload.length).toBeLessThan(JSON.stringify(value).length / 3);
    expect(createPayloadCoder().decode(payload)).toEqual(value);
  });

  it("refuses a bomb, damage and text that is not UTF-8", () => {
    const bomb = `%${deflateSync(Buffer.alloc(64 * 1024 * 1024, 0x20)).toString("base64")}`;
    expect(codeOf(() => coder.decode(bomb))).toBe("payload-unreadable");
    const twice = `%${deflateSync(Buffer.from(bomb)).toString("base64")}`;
    expect(codeOf(() => coder.decode(twice))).toBe("payload-unreadable");
    expect(codeOf(() => coder.decode("%AAAA"))).toBe("payload-unreadable");
    expect(
      codeOf(() => coder.decode(`%${deflateSync(Buffer.of(0x22, 0xff, 0x22)).toString("base64")}`)),
    ).toBe("payload-unreadable");
  });

  it("reads what a writer with a higher limit compressed", () => {
    const value = "x".repeat(5_000_000);
    const payload = createPayloadCoder({ maxBytes: 8_000_000, compression: {} }).encode(value, "input");
    expect(createPayloadCoder({ maxBytes: 1000 }).decode(payload)).toBe(value);
  });
});

describe("encryption", () => {
  it("hides the value, names the key, and never makes the same text twice", () => {
    const coder = createPayloadCoder({ encryption });
    const payload = coder.encode(card, "input");
    expect(payload).toMatch(/^!k2:[A-Za-z0-9+/]+=*$/);
    expect(Buffer.from(payload.slice(4), "base64").toString("latin1")).not.toContain("4111");
    expect(coder.encode(card, "input")).not.toBe(payload);
    expect(coder.decode(payload)).toEqual(card);
  });

  it("reads old keys after a rotation, and payloads from before encryption", () => {
    const old = createPayloadCoder({ encryption: { current: "k1", keys: { k1: hexKey } } }).encode(
      card,
      "input",
    );
    const coder = createPayloadCoder({ encryption: { current: "k3", keys } });
    expect(old).toMatch(/^!k1:/);
    expect(coder.encode(card, "input")).toMatch(/^!k3:/);
    expect(coder.decode(old)).toEqual(card);
    expect(coder.decode(JSON.stringify(card))).toEqual(card);
  });

  it("names a key that is missing, with and without a ring", () => {
    const payload = createPayloadCoder({ encryption }).encode(card, "input");
    const other = createPayloadCoder({ encryption: { current: "k1", keys: { k1: hexKey } } });
    for (const coder of [other, createPayloadCoder()]) {
      expect(codeOf(() => coder.decode(payload))).toBe("unknown-key");
      expect(() => coder.decode(payload)).toThrow('"k2"');
    }
    expect(codeOf(() => other.decode(payload.replace("!k2:", "!__proto__:")))).toBe("unknown-key");
  });

  it("refuses every altered byte, a cut text and another key of the same id", () => {
    const coder = createPayloadCoder({ encryption });
    const sealed = Buffer.from(coder.encode(card, "input").slice(4), "base64");
    for (let at = 0; at < sealed.length; at++) {
      const altered = Buffer.from(sealed);
      altered[at]! ^= 1;
      expect(codeOf(() => coder.decode(`!k2:${altered.toString("base64")}`))).toBe("payload-unreadable");
    }
    for (const length of [0, 5, 27, 28, sealed.length - 1]) {
      expect(codeOf(() => coder.decode(`!k2:${sealed.subarray(0, length).toString("base64")}`))).toBe(
        "payload-unreadable",
      );
    }
    const sameId = createPayloadCoder({ encryption: { current: "k2", keys: { k2: hexKey } } });
    expect(codeOf(() => sameId.decode(`!k2:${sealed.toString("base64")}`))).toBe("payload-unreadable");
    expect(codeOf(() => coder.decode("!k2"))).toBe("payload-unreadable");
  });

  it("compresses before it encrypts", () => {
    const coder = createPayloadCoder({ encryption, compression: {} });
    const payload = coder.encode("x".repeat(100_000), "input");
    expect(payload.length).toBeLessThan(1000);
    expect(coder.decode(payload)).toBe("x".repeat(100_000));
  });

  it("takes its nonces from the given source, so a simulation repeats itself", () => {
    const simulated = () =>
      createPayloadCoder({
        encryption: { ...encryption, randomBytes: (count) => new Uint8Array(count).fill(3) },
      });
    expect(simulated().encode(card, "input")).toBe(simulated().encode(card, "input"));
    const short = createPayloadCoder({ encryption: { ...encryption, randomBytes: () => new Uint8Array(4) } });
    expect(codeOf(() => short.encode(card, "input"))).toBe("invalid-option");
  });

  it("shows no key in errors and in inspection", () => {
    const coder = createPayloadCoder({ encryption: { current: "k1", keys: { k1: hexKey } } });
    expect(inspect(coder, { depth: 9, showHidden: true })).not.toContain(hexKey);
    const weak = hexKey.slice(2);
    expect(() => createPayloadCoder({ encryption: { current: "k1", keys: { k1: weak } } })).toThrow(
      /^(?!.*0f0f).*"k1".*32 bytes/,
    );
  });
});

describe("options", () => {
  it.each<[string, unknown]>([
    ["an unknown option", { maxSize: 1 }],
    ["no object", null],
    ["a limit of zero", { maxBytes: 0 }],
    ["a limit that is no number", { maxBytes: "1mb" }],
    ["an absurd limit", { maxBytes: 2 ** 40 }],
    ["a codec without decode", { codec: { name: "x", encode: () => "" } }],
    ["a codec with a bad name", { codec: { name: "My Codec", encode: () => "", decode: () => 0 } }],
    ["an unknown compression option", { compression: { kind: "zip" } }],
    ["a bad compression level", { compression: { level: 10 } }],
    ["encryption without keys", { encryption: { current: "k1" } }],
    ["a current key that is not in the ring", { encryption: { current: "k9", keys } }],
    ["an inherited name as the current key", { encryption: { current: "toString", keys } }],
    ["a short key", { encryption: { current: "k1", keys: { k1: new Uint8Array(16) } } }],
    ["a bad key id", { encryption: { current: "a:b", keys: { "a:b": hexKey } } }],
    ["a random source that is no function", { encryption: { ...encryption, randomBytes: 4 } }],
  ])("refuse %s", (_, options) => {
    expect(codeOf(() => createPayloadCoder(options as PayloadOptions))).toBe("invalid-option");
  });
});
