import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { MillraceError } from "../../model/error.ts";
import { handler } from "../../worker/handler.ts";

const greet = job<string, string>("greet", { retry: { attempts: 1 } });

describe("results of ended jobs", () => {
  const logged: Readonly<Record<string, unknown>>[] = [];
  const v = useVirtualMill({
    log: {
      ...{ debug: () => {}, info: () => {}, warn: () => {} },
      error: (_line, fields) => void logged.push(fields ?? {}),
    },
  });

  test("the cause of job-failed is an Error with the name, message and stack of the handler's", async () => {
    class Declined extends Error {
      override readonly name = "Declined";
    }
    const thrown = new Declined("no funds", { cause: new TypeError("limit 0") });
    const work = (): never => {
      throw thrown;
    };
    await v.run(v.mill.work([handler(greet, work)]));
    const handle = await v.run(v.mill.enqueue(greet, "x"));
    const error = await v.run(handle.result().catch((failure: MillraceError) => failure));
    const { code, cause } = error as MillraceError & { cause: Error };
    expect(code).toBe("job-failed");
    expect(cause).toBeInstanceOf(Error);
    expect([cause.name, cause.message]).toEqual(["Declined", "no funds"]);
    expect(thrown.stack?.startsWith(cause.stack ?? "none")).toBe(true);
    expect(cause.cause).toMatchObject({ name: "TypeError", message: "limit 0" });
    expect(logged).toContainEqual(expect.objectContaining({ id: handle.id, stack: cause.stack }));
  });

  test("a result past its time is result-expired, and one that there never was is undefined", async () => {
    const nothing = job<null, void>("nothing");
    await v.run(v.mill.work([handler(greet, () => "hello"), handler(nothing, () => undefined)]));
    const short = await v.run(v.mill.enqueue(greet, "x", { keepResult: "1m" }));
    const none = await v.run(v.mill.enqueue(nothing, null));
    expect(await v.run(short.result())).toBe("hello");
    await v.advance(600_000);
    await v.run(v.mill.duties.run("retention"));
    await expect(v.run(short.result())).rejects.toMatchObject({ code: "result-expired" });
    expect(await v.run(none.result())).toBeUndefined();
  });
});
