// The same handler file in the worker, in a thread and in a child process: whatever a handler can do works alike.
import { describe, expect, test } from "vitest";
import { flow, handler } from "millrace";
import { everything, followUp } from "./handlers/jobs.ts";
import { everythingIn, useWorkedMill } from "./open-mill.ts";
import { hangMs } from "../support/hang-ms.ts";

const value = {
  ...{ text: "ü\n\u2028", number: 1.5, list: [1, [null, true]], date: new Date(77), big: 2n ** 70n },
  ...{ bytes: new Uint8Array([0, 255]), map: new Map([["a", new Set([1, "b"])]]), hole: undefined },
};

describe.each(["inline", "thread", "process"] as const)('a handler file with run: "%s"', (run) => {
  const worked = useWorkedMill(() => [everythingIn(run), handler(followUp, async ({ input }) => input.from)]);
  const { wish, grant, ended } = worked;

  test("gets its input and gives its result as they are, dates, bigints, bytes, maps and sets included", async () => {
    expect(await grant({ do: "echo", value })).toEqual(value);
    expect(await grant({ do: "echo" })).toBeUndefined();
    expect(await grant({ do: "echo", value: null })).toBeNull();
  });

  test("runs where it was asked to", async () => {
    const { pid } = (await grant({ do: "where" })) as { pid: number };
    expect(pid === process.pid).toBe(run !== "process");
  });

  test("is told everything about its job", async () => {
    const handle = await wish(
      { do: "tell" },
      { headers: { tenant: "acme" }, trace: { traceparent: "00-1" } },
    );
    const job = await worked.mill.jobs.get(handle.id);
    expect(await handle.result()).toEqual({
      ...{ id: handle.id, name: "everything", queue: "default", attempt: 1, isLastAttempt: true },
      ...{ headers: { tenant: "acme" }, trace: { traceparent: "00-1" }, schedule: null },
      createdAt: job?.createdAt,
      idempotencyKey: `${handle.id}:1`,
      worker: expect.any(String) as string,
      host: expect.any(String) as string,
      fence: { value: expect.any(Number) as number, key: expect.stringContaining(handle.id) as string },
    });
  });

  test("writes output frames and their summary", async () => {
    const handle = await wish({ do: "stream" });
    const frames: unknown[] = [];
    for await (const frame of worked.mill.frames(handle.id))
      if (frame.kind === "data") frames.push(frame.value);
    expect(frames).toEqual(["text", { at: new Date(5) }]);
    expect((await worked.mill.output(handle.id)).summary).toEqual({ frames: 2 });
  });

  test("tells its progress and writes log lines", async () => {
    const handle = await wish({ do: "report" });
    expect(await handle.result()).toBe("reported");
    expect((await worked.mill.jobs.get(handle.id))?.progress).toEqual({
      value: 0.5,
      message: "half",
      data: { rows: 3 },
    });
    const [line] = await worked.mill.jobs.logs(handle.id);
    expect(line).toMatchObject({ level: "warn", message: "look at this", fields: { row: 7 } });
    expect(line?.fields).toMatchObject({ error: { name: "Error", message: "broken" } });
  });

  test("adds nodes to its flow, with its completion and all the verbs of a builder", async () => {
    expect(await grant({ do: "grow" })).toBeNull();
    const given = flow("growing");
    given.add("grow", everything, { do: "grow" });
    const grown = await worked.mill.submit(given);
    await grown.result({ timeout: hangMs });
    const nodes = await grown.nodes();
    const result = async (node: string) => (await worked.mill.jobs.get(`${grown.id}.${node}`))?.result;
    expect(await result("grow")).toBe("grow");
    expect(await result("second")).toBe("first");
    expect([await result("pair.1"), await result("each.1")]).toEqual(["b", "y"]);
    expect((await worked.mill.jobs.get(`${grown.id}.first`))?.tags).toEqual(["grown"]);
    expect(nodes.find(({ name }) => name === "pair")?.after).toEqual([]);
    expect(nodes.find(({ name }) => name === "pair.0")?.after).toEqual([{ name: "second", on: "success" }]);
  });

  test("submits a flow with its completion", async () => {
    const id = (await grant({ do: "submit-flow" })) as string;
    const begun = worked.mill.flows.run(id);
    expect(await begun.result({ timeout: hangMs })).toEqual({ pair: ["a", "first"] });
    expect(await begun.view()).toMatchObject({
      ...{ name: "begun", failureMode: "collect", tags: ["from a sandbox"] },
    });
    expect((await worked.mill.jobs.get(`${id}.first`))?.tags).toEqual(["begun"]);
    const doomed = (await grant({ do: "submit-doomed" })) as string;
    await expect(worked.mill.flows.run(doomed).result({ timeout: hangMs })).rejects.toMatchObject({
      code: "flow-failed",
    });
    const { jobs } = await worked.mill.jobs.list({ name: followUp.name });
    expect(jobs.map(({ input }) => input)).toContainEqual(
      expect.objectContaining({ id: doomed, nodes: [expect.objectContaining({ state: "expired" })] }),
    );
    const circle = await ended({ do: "submit-circle" });
    expect(circle.attempts.at(-1)?.error?.code).toBe("invalid-flow");
  });

  const unlisted = run === "inline" ? " (skipped: a handler in the worker knows every job)" : "";
  test.skipIf(run === "inline")(`adds no node of a job that was not listed${unlisted}`, async () => {
    const given = flow("growing");
    given.add("grow", everything, { do: "grow-unlisted" });
    const refused = await worked.mill.submit(given);
    await expect(refused.result({ timeout: hangMs })).rejects.toMatchObject({ code: "flow-failed" });
    expect((await refused.nodes())[0]?.error?.message).toMatch(/name that job in `jobs`/);
  });

  test("reads KV, sees its own writes, and has its effects applied with its completion", async () => {
    await worked.mill.kv.put("before", 41);
    await worked.mill.kv.put("gone", 1);
    const { own, stored, id } = (await grant({ do: "effects" })) as {
      own: unknown;
      stored: unknown;
      id: string;
    };
    expect([own, stored]).toEqual([{ at: new Date(5) }, 41]);
    expect(await worked.mill.kv.get("seen")).toEqual({ at: new Date(5) });
    expect(await worked.mill.kv.get("gone")).toBeUndefined();
    expect((await worked.mill.jobs.get(id))?.tags).toEqual(["next"]);
    expect(await worked.mill.handle(id).result()).toEqual(expect.any(String));
  });

  test("has the effects of a failure applied, and those of the completion not", async () => {
    const job = await ended({ do: "fail-with-effects" });
    expect([job.state, job.reason]).toEqual(["failed", "retries-exhausted"]);
    expect(job.failures[0]?.error).toMatchObject({
      ...{ name: "TypeError", message: "as asked", cause: { message: "deeper" } },
      stack: expect.stringContaining("everything.ts") as string,
    });
    expect(await worked.mill.kv.get("never")).toBeUndefined();
    expect(await worked.mill.kv.get("failed")).toBe(1);
  });

  test("is refused a wrong name where it was given", async () => {
    const { failures } = await ended({ do: "bad-key" });
    expect(failures[0]?.error).toMatchObject({ name: "MillraceError", code: "invalid-name" });
  });

  test("steers its job by control outcomes", async () => {
    const of = async (what: string): Promise<unknown> => {
      const { state, reason, attempt } = await ended({ do: what }, { retry: { attempts: 3 } });
      return [state, reason, attempt];
    };
    expect(await of("unrecoverable")).toEqual(["failed", "unrecoverable", 1]);
    expect(await of("cancel")).toEqual(["cancelled", "not wanted", 1]);
    expect(await of("retry-after")).toEqual(["completed", null, 2]);
    const snoozing = await wish({ do: "snooze" });
    await expect.poll(async () => (await worked.mill.jobs.get(snoozing.id))?.state).toBe("scheduled");
    await worked.mill.kv.put("snoozed", true);
    await worked.mill.jobs.reschedule(snoozing.id, { delay: 0 });
    expect(await snoozing.result()).toBe("rested");
    await worked.mill.kv.delete("snoozed");
  });

  test("extends its lease by hand", async () => {
    expect(await grant({ do: "extend" })).toBe("extended");
  });

  test("hears why it is to stop", async () => {
    const late = await ended({ do: "until-aborted" }, { timeout: "30ms" });
    expect(late.failures[0]?.outcome).toBe("timed-out");
    expect(await worked.mill.jobs.logs(late.id)).toMatchObject([{ message: "told: timeout" }]);
    const unwanted = await wish({ do: "until-aborted" });
    await expect.poll(async () => (await worked.mill.jobs.get(unwanted.id))?.state).toBe("running");
    await worked.mill.jobs.cancel(unwanted.id, { reason: "changed my mind" });
    await expect.poll(async () => (await worked.mill.jobs.get(unwanted.id))?.reason).toBe("changed my mind");
    expect(await worked.mill.jobs.logs(unwanted.id)).toMatchObject([{ message: "told: cancel" }]);
  });

  test("cannot give back what no store can keep, and is not asked again", async () => {
    const job = await ended({ do: "uncrossable" }, { retry: { attempts: 3 } });
    expect([job.state, job.attempt, job.failures[0]?.error?.code]).toEqual([
      "failed",
      1,
      "payload-not-encodable",
    ]);
  });

  test("does no harm when it goes on after its end", async () => {
    expect(await grant({ do: "late" })).toBe("early");
    expect(await grant({ do: "echo", value: 1 })).toBe(1);
  });
});

describe.each(["thread", "process"] as const)('what a handler with run: "%s" prints', (run) => {
  const { ended } = useWorkedMill(() => [everythingIn(run, { outputBytesMax: 1_000_000 })]);

  test("is kept with its attempt", async () => {
    const { attempts } = await ended({ do: "print", value: "hello" });
    expect(attempts).toMatchObject([
      { outcome: "completed", output: { stdout: "hello\n", stderr: "to the other stream\n" } },
    ]);
  });

  test("is not kept with the next one", async () => {
    await ended({ do: "print", value: "hello" });
    const { attempts } = await ended({ do: "echo" });
    expect(attempts[0]).not.toHaveProperty("output");
  });

  test("is cut to its end", async () => {
    const { attempts } = await ended({ do: "print-much" });
    const { stdout } = attempts[0]?.output ?? {};
    expect(stdout?.endsWith("line 19999\n")).toBe(true);
    expect(stdout).toHaveLength(4000);
  });

  test("fails the attempt where it does not end", async () => {
    const { failures } = await ended({ do: "print-without-end" });
    expect(failures[0]?.error).toMatchObject({ code: "sandbox-overrun" });
  });
});
