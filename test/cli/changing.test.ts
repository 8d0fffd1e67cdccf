// Commands that change, remove, count and follow jobs, on a real file.
import { describe, expect, test } from "vitest";
import { handler, job, Millrace } from "../../src/index.ts";
import { aStoreUrl, say, sayJson, startMillrace } from "./run-millrace.ts";

const args = (text: string, store: string): string[] => [...text.split(" "), "--store", store];

async function enqueued(store: string, ...ids: string[]): Promise<void> {
  for (const id of ids) await sayJson(args(`enqueue send 1 --queue mail --delay 1h --id ${id}`, store));
}

const shown = async (id: string, store: string): Promise<unknown> =>
  (await sayJson(args(`show ${id}`, store)))["job"];

describe("a waiting job", () => {
  test("is edited, rescheduled and run now", async () => {
    const store = aStoreUrl();
    await enqueued(store, "a");
    const headers = '{"tenant":"42"}';
    expect(
      await sayJson([...args("edit a --input [2] --priority high", store), "--headers", headers]),
    ).toEqual({
      id: "a",
      answer: "edited",
    });
    expect(await shown("a", store)).toMatchObject({ input: [2], headers: { tenant: "42" } });
    const moved = await say(args("reschedule a --at 2080-01-31T12:00+02:00", store));
    expect(moved.out).toBe("a is due at 2080-01-31 10:00:00.000Z\n");
    expect(await shown("a", store)).toMatchObject({ dueAt: "2080-01-31T10:00:00.000Z", state: "scheduled" });
    expect((await say(args("reschedule a --delay 2h", store))).out).toBe("a is due in 2h\n");
    expect((await say(args("run-now a --input 3", store))).out).toBe("a is due now\n");
    expect(await shown("a", store)).toMatchObject({ input: 3, state: "ready" });
  });

  test("is deleted by id, and many are purged by filter", async () => {
    const store = aStoreUrl();
    await enqueued(store, "a", "b", "c");
    expect((await say(args("delete a", store))).out).toBe("a deleted\n");
    expect(await sayJson(args("purge --queue mail --before 1h", store))).toEqual({
      ...{ deleted: 0, running: 0, "flow-member": 0, deleting: 0, "has-undo": 0, "not-found": 0 },
    });
    expect((await say(args("purge --queue mail --after 1h", store))).out).toBe("2 deleted, 0 run and stay\n");
    expect((await say(args("list", store))).out).toBe("no jobs\n");
  });
});

describe("a running job", () => {
  test("is revoked but not deleted, and its log is followed until it ends", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const slow = job<number>("slow");
    await mill.work([
      handler(slow, async ({ log, attempt }) => {
        log.info("begun", { attempt });
        begun.resolve();
        await gate.promise;
        log.warn("over");
      }),
    ]);
    const { id } = await mill.enqueue(slow, 1);
    await begun.promise;
    const refused = await say(args(`delete ${id}`, store));
    expect(refused.err).toMatch(/^millrace: job-changed: .* runs; cancel or revoke it first/);
    expect(refused.code).toBe(1);

    const following = startMillrace(args(`logs ${id} --follow`, store));
    await following.hears(/info: begun \{"attempt":1\}\n/);
    expect((await say(args(`revoke ${id}`, store))).out).toBe(`${id} was taken from its worker\n`);
    gate.resolve();
    const { code, out } = await following.ended;
    expect(out).toMatch(/warn: over\n$/);
    expect(code).toBe(0);
    const { logs } = (await sayJson(args(`logs ${id}`, store))) as { logs: { number: number }[] };
    expect(logs.map(({ number }) => number)).toEqual(logs.map((_, at) => at + 1));
    expect((await say(args(`logs ${id}`, store))).out).toBe(out);
  });

  test("shows its output as it comes, also that of its other attempts, and as it is at the end", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const chat = job("chat", { retry: { attempts: 2, backoff: 0 } });
    await mill.work([
      handler(chat, async ({ stream, attempt }) => {
        for (const text of ["Hello ", `of ${attempt}`, "\u001b[2J"]) stream.write(text);
        stream.write({ tokens: 3 });
        stream.summary({ tokens: attempt });
        await gates[attempt - 1]?.promise;
        if (attempt === 1) throw new Error("again");
      }),
    ]);
    const { id } = await mill.enqueue(chat, null);
    const following = startMillrace(args(`logs ${id} --follow`, store));
    await following.hears(/output: Hello of 1[^\n]*\n[^\n]*output: \{"tokens":3\}\n/);
    gates[0]?.resolve();
    await following.hears(/output restarted\n[^\n]*output: Hello of 2[^\n]*\n/);
    gates[1]?.resolve();
    const { code, out } = await following.ended;
    expect(code).toBe(0);
    expect(out).not.toContain("\u001b");
    expect((await say(args(`show ${id}`, store))).out).toMatch(/output +4 frames\nsummary +\{"tokens":2\}\n/);
    expect(await sayJson(args(`show ${id}`, store))).toMatchObject({
      output: { frames: 4, summary: { tokens: 2 } },
    });
    const { frames } = await sayJson(args(`logs ${id}`, store));
    expect(frames).toMatchObject([
      ...[{ value: "Hello " }, { value: "of 2" }, { value: "\u001b[2J" }, { kind: "data", part: null }],
    ]);
    expect((await say(args(`logs ${id}`, store))).out).toMatch(
      /^[^\n]*output: Hello of 2[^\n]*\n[^\n]*tokens":3\}\n$/,
    );
  });

  test("whose log is followed in vain: a signal ends the following", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    const begun = Promise.withResolvers<void>();
    const waits = handler(job("waits"), async ({ log, signal }) => {
      log.info("begun");
      begun.resolve();
      await new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason as Error)),
      );
    });
    await mill.work([waits], { shutdownGrace: 0 });
    const { id } = await mill.enqueue(waits.definition, undefined);
    await begun.promise;
    const following = startMillrace(args(`logs ${id} --follow`, store));
    await following.hears(/begun/);
    following.child.kill("SIGINT");
    expect((await following.ended).code).toBe(0);
  });
});

describe("counts and times", () => {
  test("counts shows every queue and state, or one queue", async () => {
    const store = aStoreUrl();
    await enqueued(store, "a", "b");
    await sayJson(args("enqueue other --id c", store));
    expect(await sayJson(args("counts", store))).toEqual({
      queues: { default: { ready: 1 }, mail: { scheduled: 2 } },
    });
    expect(await sayJson(args("counts --queue mail", store))).toEqual({ queues: { mail: { scheduled: 2 } } });
    expect((await say(args("counts", store))).out).toBe(
      "QUEUE    scheduled  ready\ndefault          0      1\nmail             2      0\n",
    );
    expect((await say(args("counts --queue none", store))).out).toBe("no jobs\n");
  });

  test("list takes times and ages", async () => {
    const store = aStoreUrl();
    await enqueued(store, "a");
    const found = async (filter: string): Promise<number> =>
      ((await sayJson(args(`list ${filter}`, store)))["jobs"] as unknown[]).length;
    expect(await found("--after 1h")).toBe(1);
    expect(await found("--before 1h")).toBe(0);
    expect(await found("--after 2001-01-31")).toBe(1);
    expect(await found("--before 2001-01-31T12:00Z")).toBe(0);
    expect(await found("--after 2001-01-31T12:00 --before 2080-01-31T12:00:01.5Z")).toBe(1);
    expect(await found("--holds-group")).toBe(0);
  });
});
