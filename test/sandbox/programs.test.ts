// Programs in any language that speak the line protocol, and what happens when one does not keep to it.
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { fileHandler, Millrace, programHandler } from "millrace";
import type { ErrorCode, FileHandlerOptions, Handler, ProgramHandlerOptions } from "millrace";
import { everything } from "./handlers/jobs.ts";
import { useWorkedMill } from "./open-mill.ts";

const hostile = fileURLToPath(new URL("./handlers/hostile.mjs", import.meta.url));

function program(mode: string, options: Partial<ProgramHandlerOptions> = {}): Handler {
  const argv = [process.execPath, hostile, mode];
  return programHandler(everything, {
    program: argv,
    size: 1,
    killGrace: "100ms",
    lineBytesMax: 4_000_000,
    ...options,
  });
}

describe("a program", () => {
  const { ended, grant, mill: _ } = useWorkedMill(() => [program("", { env: { FLAVOUR: "sour" } })]);
  const expectLife = async (): Promise<void> =>
    expect(await grant({ do: "echo", value: "alive" })).toBe("alive");

  test.each<[what: string, wish: string, code: ErrorCode, message: RegExp]>([
    [
      "a line that is no message",
      "garbage",
      "sandbox-garbled",
      /no message: "Traceback: this is no message"/,
    ],
    ["half a message before its exit", "half", "sandbox-lost", /exit code 0/],
    ["a message of an unknown type", "unknown", "sandbox-garbled", /unknown type.*dance/],
    ["a line of 100 MB", "long", "sandbox-garbled", /a line of more than 4000000 bytes/],
    ["an exit", "exit", "sandbox-lost", /exit code 4/],
    ["a value that cannot be read", "wrong-value", "payload-unreadable", /./],
    ["an effect that is refused", "wrong-effect", "invalid-name", /kv key/],
  ])("fails one attempt by %s", async (_what, wish, code, message) => {
    const { failures } = await ended({ do: wish });
    expect(failures[0]?.error).toMatchObject({ code, message: expect.stringMatching(message) as string });
    await expectLife();
  });

  test("that closes its standard input fails the next attempt at most", async () => {
    const { failures } = await ended({ do: "closes-input" }, { timeout: "300ms" });
    expect(failures).toHaveLength(1);
    await expectLife();
  });

  test("may say things twice or after its end, or of wrong types, without harm to the next", async () => {
    expect(await grant({ do: "twice" })).toBe(1);
    expect(await grant({ do: "wrong-types" })).toBe("went on");
    await expectLife();
  });

  test("may tell its errors badly", async () => {
    expect((await ended({ do: "wrong-control" })).failures[0]?.error?.message).toBe("just a text");
    expect((await ended({ do: "no-error" })).failures[0]?.error?.message).toBe("no error was told");
    await expectLife();
  });

  test("that does not listen for aborts is ended by SIGTERM", async () => {
    expect((await ended({ do: "waits" }, { timeout: "50ms" })).failures[0]).toMatchObject({
      outcome: "timed-out",
    });
    await expectLife();
  });

  test("that ignores SIGTERM is killed", async () => {
    expect((await ended({ do: "ignores-terms" }, { timeout: "200ms" })).failures[0]).toMatchObject({
      outcome: "timed-out",
    });
    await expectLife();
  });

  test("sees nothing of the worker's environment but what every program needs", async () => {
    process.env["SECRET_OF_THE_WORKER"] = "hush";
    const seen = (await grant({ do: "environment" })) as Record<string, string>;
    expect(seen).toMatchObject({ PATH: process.env["PATH"], FLAVOUR: "sour" });
    expect(Object.keys(seen)).not.toContain("SECRET_OF_THE_WORKER");
  });
});

describe("a worker", () => {
  test.each<[what: string, how: Partial<ProgramHandlerOptions>, message: RegExp]>([
    ["is not there", { program: ["no-such-program"] }, /no-such-program ENOENT/],
    ["ends at once", { program: [process.execPath, hostile, "dies"] }, /exit code 3/],
    ["greets in prose", { program: [process.execPath, hostile, "garbage"] }, /no message: "Welcome/],
    [
      "says nothing",
      { program: [process.execPath, hostile, "silent"], startTimeout: "300ms" },
      /not ready within/,
    ],
    ["has no folder", { cwd: "/no/such/folder" }, /ENOENT/],
  ])("does not start while a program %s, and says why", async (_what, how, message) => {
    await using mill = await Millrace.open("sqlite::memory:", { log: false });
    const refusal = { code: "handler-not-loaded", message: expect.stringMatching(message) as string };
    await expect(mill.work([program("", how)])).rejects.toThrow(expect.objectContaining(refusal));
  });

  test.each<[wrong: object, message: RegExp]>([
    [{ file: "./resize.ts" }, /file must be the address/],
    [{ file: new URL("https://example.com/a.js") }, /file must be the address/],
    [{ file: new URL("file:///a.ts"), run: "sandbox" }, /run must be "thread", "process" or "inline"/],
    [{ file: new URL("file:///a.ts"), program: ["a"] }, /unknown option "program"/],
    [{ program: [] }, /list of texts/],
    [{ program: "python3 child.py" }, /list of texts/],
    [{ program: ["a", 5] }, /list of texts/],
    [{ program: ["a"], size: 0 }, /size must be a whole number/],
    [{ program: ["a"], jobs: ["b"] }, /jobs: the job must be one made by job/],
    [{ program: ["a"], env: { A: 1 } }, /env must be an object of texts/],
    [{ program: ["a"], killGrace: "soon" }, /killGrace/],
    [{ program: ["a"], memoryBytesMax: 1 }, /memoryBytesMax/],
    [{ program: ["a"], recycle: { days: 1 } }, /unknown option "days"/],
  ])("is not given a handler with %o", (wrong, message) => {
    const make = () =>
      "file" in wrong
        ? fileHandler(everything, wrong as FileHandlerOptions)
        : programHandler(everything, wrong as ProgramHandlerOptions);
    expect(make).toThrow(message);
  });
});
