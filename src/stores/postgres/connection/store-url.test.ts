import { describe, expect, test } from "vitest";
import { checkListenUrl, checkSchema, nameOf, readStoreUrl } from "./store-url.ts";

const plain = "postgres://user:secret@host:5433/app?sslmode=require";
const direct = "postgres://user@direct:5432/app?sslmode=require";

describe("the URL of a store on Postgres", () => {
  test("goes to the driver as it is when it says nothing of Millrace", () => {
    expect(readStoreUrl(plain)).toEqual({ url: plain, schema: null, listenUrl: undefined });
  });

  test("names schema and listening address, and the driver sees neither", () => {
    const url = `${plain}&schema=jobs&listenUrl=${encodeURIComponent(direct)}`;
    expect(readStoreUrl(url)).toEqual({ url: plain, schema: "jobs", listenUrl: direct });
    expect(readStoreUrl("postgresql://host/app?listenUrl=none")).toEqual({
      url: "postgresql://host/app",
      schema: null,
      listenUrl: null,
    });
  });

  test.each([undefined, "", "host/app", "http://host/app", "postgres"])("%j is none", (url) => {
    expect(() => readStoreUrl(url)).toThrow(expect.objectContaining({ code: "unknown-store" }));
  });

  test("with a parameter that nobody acts on is refused, and the known ones are named", () => {
    for (const url of [`${plain}&shema=jobs`, `${plain}&poolMax=3`])
      expect(() => readStoreUrl(url)).toThrow(
        expect.objectContaining({
          code: "invalid-option",
          message: expect.stringMatching(/"(shema|poolMax)".*schema, listenUrl, host.*sslmode/) as string,
        }),
      );
    expect(readStoreUrl(`${plain}&application_name=a`).schema).toBeNull();
  });

  test("is named in messages without its password", () => {
    expect(nameOf(plain)).toBe("the database app at host:5433");
    expect(nameOf(undefined)).toBe("the database of the given pool");
  });
});

test.each(["", "1a", "a-b", 'a"b', "a".repeat(51)])("the schema %j is refused", (schema) => {
  expect(() => checkSchema(schema)).toThrow(expect.objectContaining({ code: "invalid-option" }));
});

test("a listening address that is no URL of Postgres is refused", () => {
  expect(checkListenUrl(direct)).toBe(direct);
  expect(checkListenUrl(`${direct}&schema=jobs`)).toBe(direct);
  for (const url of ["", "yes", "http://host"])
    expect(() => checkListenUrl(url)).toThrow(expect.objectContaining({ code: "invalid-option" }));
});
