import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { waitKey } from "../../model/durable/call-key.ts";
import { answerKeyOf, checkToken, rotateKeys, signToken } from "./approval-token.ts";
import type { TokenClaims, TokenKey } from "./approval-token.ts";

const secretOf = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const key: TokenKey = { id: "k1", secret: secretOf(1), until: null };
const claims: TokenClaims = {
  ...{ run: "order-17", round: 1, wait: waitKey("manager", 1), source: "ann" },
  expiresAt: 2000,
};
const here = { namespace: "main", now: 1000 };
const token = signToken(claims, key, "main");

describe("a token", () => {
  test("gives its claims back", () => {
    fc.assert(
      fc.property(
        fc.record({
          ...{ run: fc.string({ minLength: 1 }), round: fc.nat(), wait: fc.string({ minLength: 1 }) },
          ...{
            source: fc.string({ minLength: 1, unit: "grapheme" }),
            expiresAt: fc.integer({ min: 1001, max: 2 ** 50 }),
          },
        }),
        fc.string(),
        (given, namespace) => {
          const signed = signToken(given, key, namespace);
          expect(signed).toMatch(/^[\w-]+\.[\w-]+$/);
          expect(checkToken(signed, [key], { namespace, now: 1000 })).toEqual({ kind: "ok", claims: given });
        },
      ),
    );
  });

  test("is refused once one character of it is another, or one is missing or added", () => {
    for (let at = 0; at < token.length; at++)
      for (const other of ["A", "b", "-", ".", ""]) {
        const changed = token.slice(0, at) + other + token.slice(at + 1);
        if (changed !== token) expect(checkToken(changed, [key], here)).toEqual({ kind: "invalid" });
      }
    expect(checkToken(`${token}A`, [key], here)).toEqual({ kind: "invalid" });
  });

  test.each<[title: string, run: () => unknown]>([
    ["in another namespace", () => checkToken(token, [key], { ...here, namespace: "other" })],
    [
      "under a key of the same id with another secret",
      () => checkToken(token, [{ ...key, secret: secretOf(2) }], here),
    ],
    ["under no key at all", () => checkToken(token, [], here)],
    [
      "under the secret of nobody",
      () => checkToken(signToken(claims, { ...key, id: "?", secret: secretOf(0) }, "main"), [key], here),
    ],
    ["that is no text", () => checkToken({ run: "order-17" }, [key], here)],
    ["that is empty", () => checkToken("", [key], here)],
    ["that is very long", () => checkToken(`${"A".repeat(1_000_000)}.A`, [key], here)],
    [
      "that is JSON of another shape",
      () => checkToken(`${Buffer.from("{}").toString("base64url")}.A`, [key], here),
    ],
  ])("is refused %s", (_title, run) => {
    expect(run()).toEqual({ kind: "invalid" });
  });

  test("expires by the store's clock, and only a true one says so", () => {
    expect(checkToken(token, [key], { ...here, now: 1999 })).toMatchObject({ kind: "ok" });
    expect(checkToken(token, [key], { ...here, now: 2000 })).toEqual({ kind: "expired" });
    expect(checkToken(`${token}x`, [key], { ...here, now: 2000 })).toEqual({ kind: "invalid" });
  });

  test("answers its wait once: the next wait and another source have other keys", () => {
    const keys = [
      answerKeyOf(claims),
      answerKeyOf({ ...claims, source: "bob" }),
      answerKeyOf({ ...claims, wait: waitKey("manager", 2) }),
    ];
    expect(new Set(keys).size).toBe(3);
  });
});

describe("after a rotation", () => {
  const rotated = rotateKeys([key], { id: "k2", secret: secretOf(2) }, { now: 1000, graceMs: 500 });

  test("the new key signs, and the old one is accepted until its end", () => {
    expect(rotated.map(({ id, until }) => [id, until])).toEqual([
      ["k2", null],
      ["k1", 1500],
    ]);
    expect(checkToken(token, rotated, { ...here, now: 1499 })).toMatchObject({ kind: "ok" });
    expect(checkToken(token, rotated, { ...here, now: 1500 })).toEqual({ kind: "invalid" });
  });

  test("an end is never moved further away, and retired keys go", () => {
    const again = rotateKeys(rotated, { id: "k3", secret: secretOf(3) }, { now: 1200, graceMs: 5000 });
    expect(again.map(({ id, until }) => [id, until])).toEqual([
      ["k3", null],
      ["k2", 6200],
      ["k1", 1500],
    ]);
    const later = rotateKeys(again, { id: "k4", secret: secretOf(4) }, { now: 1500, graceMs: 5000 });
    expect(later.map(({ id }) => id)).toEqual(["k4", "k3", "k2"]);
  });
});
