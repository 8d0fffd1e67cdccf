// The child in Python that is shown among the examples.
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { job, programHandler } from "millrace";
import { readFileSync } from "node:fs";
import { find, testPrograms } from "../../scripts/test-programs.ts";
import { useWorkedMill } from "./open-mill.ts";

const child = fileURLToPath(new URL("../../examples/sandbox/count_words.py", import.meta.url));
const countWords = job<{ text: string | null }, Record<string, number>>("count-words", {
  retry: { attempts: 1 },
});

describe("the child in Python", () => {
  test("has fewer than 60 lines", () => {
    expect(readFileSync(child, "utf8").trimEnd().split("\n").length).toBeLessThan(60);
  });

  const worked = useWorkedMill(() => [
    programHandler(countWords, { program: [find(testPrograms.python), child], size: 1 }),
  ]);

  test("runs jobs one after the other and tells all that a handler can tell", async () => {
    const text = "to be or not to be, é";
    const handle = await worked.mill.enqueue(countWords, { text });
    expect(await handle.result()).toEqual({ "be,": 1, be: 1, not: 1, or: 1, to: 2, é: 1 });
    expect(await worked.mill.kv.get("last-counted")).toBe(7);
    await worked.mill.kv.put("left-out-words", ["to", "be"]);
    const fewer = await worked.mill.enqueue(countWords, { text });
    expect(await fewer.result()).toEqual({ "be,": 1, not: 1, or: 1, é: 1 });
    expect(await worked.mill.kv.get("last-counted")).toBe(4);
    await worked.mill.kv.delete("left-out-words");
    expect((await worked.mill.jobs.get(handle.id))?.progress).toMatchObject({ value: 1, message: "counted" });
    expect(await worked.mill.jobs.logs(handle.id)).toMatchObject([
      { level: "info", message: "counting", fields: { words: 7 } },
    ]);
  });

  test("steers its job, and its errors have their Python name and stack", async () => {
    const failed = async (text: string | null): Promise<unknown> => {
      const handle = await worked.mill.enqueue(countWords, { text });
      await handle.result().catch(() => {});
      const view = await worked.mill.jobs.get(handle.id);
      return { reason: view?.reason, error: view?.failures[0]?.error };
    };
    expect(await failed("")).toMatchObject({ reason: "unrecoverable", error: { name: "Control" } });
    expect(await failed(null)).toMatchObject({
      reason: "retries-exhausted",
      error: { name: "AttributeError", stack: expect.stringContaining("count_words.py") as string },
    });
  });
});
