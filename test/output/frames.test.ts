// What handlers write with `stream`, and what readers get of it, on virtual time.
import { describe, expect, test, vi } from "vitest";
import { batchHandler, handler, job } from "../../src/index.ts";
import type { Frame, JobStream } from "../../src/index.ts";
import { outputLimits } from "../../src/model/output/output-limits.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";
import { deferred } from "../support/virtual/virtual-mill.ts";
import { readToEnd, shownBy, textOf } from "./read-frames.ts";

const v = useVirtualMill();

const chat = job("chat", { retry: { attempts: 3, backoff: { kind: "fixed", delay: "1s", jitter: "none" } } });

type Context = Parameters<Parameters<typeof handler>[1]>[0] & { stream: JobStream };

async function start(run: (context: Context) => unknown, definition = chat): Promise<string> {
  await v.run(v.mill.work([handler(definition, run as never)]));
  const { id } = await v.run(v.mill.enqueue(definition, {}));
  return id;
}

const read = (id: string, from?: string): Promise<Frame[]> =>
  v.run(readToEnd(v.mill, id, from === undefined ? {} : { from }));

describe("a handler that writes frames", () => {
  test("has each of them read as it was when it was written: text, JSON, bytes and the codec's other values", async () => {
    const list = [1];
    const id = await start(({ stream }) => {
      stream.write("text");
      stream.write({ list });
      list.push(2);
      stream.write(new Uint8Array([1, 2]));
      stream.write(new Date(5));
      stream.write(null);
    });
    const frames = await read(id);
    expect(frames.map(textOf)).toEqual([
      "text",
      { list: [1] },
      new Uint8Array([1, 2]),
      new Date(5),
      null,
      "ended completed",
    ]);
    expect(frames[0]).toMatchObject({ kind: "data", part: null });
  });

  test("has those of 20 ms in one write, and the rest before its end", async () => {
    const records = vi.spyOn(v.store, "recordIfLeased");
    const reached = deferred();
    const id = await start(async ({ stream }) => {
      for (let at = 0; at < 100; at++) stream.write(at);
      await reached.promise;
      stream.write("last");
      return "result";
    });
    await v.advance(19);
    expect(records).not.toHaveBeenCalled();
    await v.advance(2);
    expect(records).toHaveBeenCalledOnce();
    reached.resolve();
    await v.run(v.mill.handle(id).result());
    expect(records).toHaveBeenCalledTimes(2);
    const page = (await v.run(v.store.readFrames([{ id, after: { fence: 0, number: 0 }, max: 9 }])))[0];
    expect(page).toMatchObject({ chunks: [{ number: 100 }, { number: 101 }], ended: "completed" });
    expect((await read(id)).map(textOf)).toEqual([...Array(100).keys(), "last", "ended completed"]);
  });

  test("costs a job that writes none no call, no row and no event", async () => {
    const records = vi.spyOn(v.store, "recordIfLeased");
    const id = await start(({ stream }) => void stream);
    await v.run(v.mill.handle(id).result());
    expect(records).not.toHaveBeenCalled();
    expect((await read(id)).map(textOf)).toEqual(["ended completed"]);
  });

  test("can wait until all is durable", async () => {
    const seen: unknown[] = [];
    const id = await start(async ({ id: own, stream }) => {
      stream.write("a");
      await stream.flush();
      const [page] = await v.store.readFrames([{ id: own, after: null, max: 1 }]);
      seen.push(page);
      await stream.flush();
    });
    await v.run(v.mill.handle(id).result());
    expect(seen).toMatchObject([{ chunks: [{ number: 1 }] }]);
  });

  test("gets a frame that is too large, or cannot be encoded, as an error at the call, and may go on", async () => {
    const codes: unknown[] = [];
    const id = await start(({ stream }) => {
      for (const frame of ["x".repeat(2 * 2 ** 20), () => 1]) {
        try {
          stream.write(frame);
        } catch (error) {
          codes.push((error as { code: string }).code);
        }
      }
      stream.write("fine");
    });
    expect((await read(id)).map(textOf)).toEqual(["fine", "ended completed"]);
    expect(codes).toEqual(["payload-too-large", "payload-not-encodable"]);
  });

  test("is refused what is too much, by a stable code, and keeps what it had written", async () => {
    const caught: unknown[] = [];
    const half = "x".repeat(500_000);
    const id = await start(({ stream }) => {
      let written = 0;
      try {
        for (; ; written++) stream.write(half);
      } catch (error) {
        caught.push(written, error);
      }
    });
    const frames = await read(id);
    expect(caught[1]).toMatchObject({ code: "output-full", outcome: "did-not-happen" });
    expect(caught[0]).toBe(Math.floor(outputLimits.charsMax / (half.length + 2)));
    expect(frames).toHaveLength((caught[0] as number) + 1);
  });

  test("keeps the newest n, if its definition says so", async () => {
    const last = job("last", { frames: { keep: 3 } });
    const id = await start(async ({ stream }) => {
      for (let at = 0; at < 50; at++) {
        stream.write(at);
        if (at % 7 === 0) await stream.flush();
      }
    }, last);
    await v.run(v.mill.handle(id).result());
    const texts = (await read(id)).map(textOf);
    expect(texts.slice(-4)).toEqual([47, 48, 49, "ended completed"]);
    expect(texts.length).toBeLessThan(15);
    const [page] = await v.run(v.store.readFrames([{ id, after: null, max: 1 }]));
    expect(page).toMatchObject({ chunks: [{ number: 50 }] });
  });

  test("is refused frames after its end", async () => {
    const streams: JobStream[] = [];
    const id = await start(({ stream }) => void streams.push(stream));
    await v.run(v.mill.handle(id).result());
    for (const call of [() => streams[0]?.write("late"), () => streams[0]?.summary({ a: 1 })])
      expect(call).toThrow(expect.objectContaining({ code: "lease-lost", outcome: "did-not-happen" }));
  });

  test("writes without what the definition redacts", async () => {
    const secret = job<unknown>("secret", { redact: ["card"] });
    const id = await start(({ stream }) => {
      stream.write({ card: "1234", text: "t" });
      stream.summary({ card: "1234" });
    }, secret);
    expect((await read(id)).map(textOf)[0]).toEqual({ card: "[redacted]", text: "t" });
    expect((await v.run(v.mill.output(id))).summary).toEqual({ card: "[redacted]" });
  });

  test("has each of its jobs write for itself in a batch", async () => {
    await v.run(
      v.mill.work([
        batchHandler(chat, { size: 3, wait: "10ms" }, async (contexts) => {
          for (const { input, stream } of contexts) stream.write(input);
        }),
      ]),
    );
    const handles = await v.run(v.mill.enqueueMany([chat.with("a"), chat.with("b")]));
    const read2 = await Promise.all(handles.map(({ id }) => read(id)));
    expect(read2.map((frames) => frames.map(textOf)[0])).toEqual(["a", "b"]);
  });
});

describe("the summary", () => {
  test("is patched, durable and read with the number of frames", async () => {
    const id = await start(({ stream }) => {
      stream.summary({ model: "m", tokens: { in: 1 } });
      stream.write("x");
      stream.summary({ model: null, tokens: { out: 2 } });
    });
    await v.run(v.mill.handle(id).result());
    expect(await v.run(v.mill.output(id))).toEqual({
      frames: 1,
      summary: { tokens: { in: 1, out: 2 } },
      ended: "completed",
    });
  });

  test("that is no JSON, or too large, is an error at the call", async () => {
    const codes: unknown[] = [];
    const circle: unknown[] = [];
    circle.push(circle);
    const id = await start(({ stream }) => {
      for (const patch of [circle, undefined, { a: "x".repeat(70_000) }]) {
        try {
          stream.summary(patch);
        } catch (error) {
          codes.push((error as { code: string }).code);
        }
      }
      stream.summary({ ok: true });
    });
    await v.run(v.mill.handle(id).result());
    expect(codes).toEqual(["payload-not-encodable", "payload-not-encodable", "payload-too-large"]);
    expect((await v.run(v.mill.output(id))).summary).toEqual({ ok: true });
  });
});

describe("a reader", () => {
  test("gets frames while the job runs, and goes on after any of them", async () => {
    const go = deferred();
    const id = await start(async ({ stream }) => {
      stream.write("a");
      stream.write("b");
      await go.promise;
      stream.write("c");
    });
    const reader = v.mill.frames(id);
    const first = await v.run(reader.next());
    expect(textOf(first.value as Frame)).toBe("a");
    await v.run(reader.return?.() as Promise<unknown>);
    const { cursor } = first.value as Frame;
    const others = readToEnd(v.mill, id, { from: cursor });
    go.resolve();
    const rest = await v.run(others);
    expect(rest.map(textOf)).toEqual(["b", "c", "ended completed"]);
    const end = rest.at(-1)?.cursor as string;
    expect((await read(id, end)).map(textOf)).toEqual(["ended completed"]);
    for (const [at, frame] of rest.entries())
      expect((await read(id, frame.cursor)).map(textOf)).toEqual(
        at === 2 ? ["ended completed"] : rest.slice(at + 1).map(textOf),
      );
  });

  test("of another attempt discards what the one before has sent", async () => {
    const id = await start(({ stream, attempt }) => {
      for (let at = 0; at < 3; at++) stream.write(`${attempt}.${at}`);
      stream.summary({ [`attempt${attempt}`]: true });
      if (attempt < 3) throw new Error("again");
    });
    const frames = await read(id);
    expect(shownBy(frames)).toEqual(["3.0", "3.1", "3.2"]);
    expect(frames.map(textOf)).toEqual([
      ...["1.0", "1.1", "1.2", "restarted all", "2.0", "2.1", "2.2"],
      ...["restarted all", "3.0", "3.1", "3.2", "ended completed"],
    ]);
    // Who comes later gets what counts, and nothing else.
    expect((await read(id)).map(textOf)).toEqual(["3.0", "3.1", "3.2", "ended completed"]);
    const ofFirst = (frames[1] as Frame).cursor;
    expect((await read(id, ofFirst)).map(textOf)[0]).toBe("restarted all");
    const restart = frames.filter(({ kind }) => kind === "restarted").at(-1)?.cursor as string;
    expect((await read(id, restart)).map(textOf)).toEqual(["3.0", "3.1", "3.2", "ended completed"]);
    expect((await v.run(v.mill.output(id))).summary).toEqual({ attempt3: true });
  });

  test("that fell behind what is kept starts anew with it", async () => {
    const last = job("last", { frames: { keep: 2 } });
    const id = await start(async ({ stream }) => {
      stream.write(0);
      await stream.flush();
      for (let at = 1; at < 9; at++) {
        stream.write(at);
        await stream.flush();
      }
    }, last);
    await v.run(v.mill.handle(id).result());
    const all = await read(id);
    expect(all.map(textOf)).toEqual([7, 8, "ended completed"]);
    const early = (all[0] as Frame).cursor.replace(/\d+$/, "1");
    expect((await read(id, early)).map(textOf)).toEqual(["restarted all", 7, 8, "ended completed"]);
  });

  test("of a job that is unknown, deleted or pruned gets a clear error", async () => {
    const gone = { code: "job-not-found" };
    await expect(read("nobody")).rejects.toMatchObject(gone);
    const id = await start(({ stream }) => stream.write("x"));
    await v.run(v.mill.handle(id).result());
    await v.run(v.mill.jobs.delete(id));
    await expect(read(id)).rejects.toMatchObject(gone);
    await expect(v.run(v.mill.output(id))).rejects.toMatchObject(gone);
  });

  test("with a wrong cursor or option is refused at the call", () => {
    for (const from of ["", "x", "e1-4", "f1-1", "f1-1-x", "f1-99999999999999999-1"])
      expect(() => v.mill.frames("a", { from }), from).toThrow(
        expect.objectContaining({ code: "invalid-cursor" }),
      );
    const options: unknown[] = [{ from: 1 }, { signal: {} }, { form: "x" }];
    for (const option of options)
      expect(() => v.mill.frames("a", option as never)).toThrow(
        expect.objectContaining({ code: "invalid-option" }),
      );
    expect(() => job("x", { frames: { keep: 0 } })).toThrow(
      expect.objectContaining({ code: "invalid-option" }),
    );
    expect(() => job("x", { frames: {} as never })).toThrow(
      expect.objectContaining({ code: "invalid-option" }),
    );
  });

  test("ends with its signal, with the loop and with Millrace, also while it waits", async () => {
    const never = deferred();
    const id = await start(async ({ stream, signal }) => {
      stream.write("a");
      await Promise.race([
        never.promise,
        new Promise((resolve) => signal.addEventListener("abort", resolve)),
      ]);
    });
    const controller = new AbortController();
    const ended: Promise<Frame[]>[] = [
      readToEnd(v.mill, id, { signal: controller.signal }),
      readToEnd(v.mill, id),
    ];
    await v.advance(500);
    controller.abort();
    expect((await v.run(ended[0] as Promise<Frame[]>)).map(textOf)).toEqual(["a"]);
    expect(await v.run(readToEnd(v.mill, id, { signal: AbortSignal.abort() }))).toEqual([]);
    never.resolve();
    await v.run(v.mill.close());
    expect((await v.run(ended[1] as Promise<Frame[]>)).map(textOf)[0]).toBe("a");
  });

  test("shares the reads of the store with a thousand others", async () => {
    const go = deferred();
    const reads = vi.spyOn(v.store, "readFrames");
    const id = await start(async ({ stream }) => {
      stream.write("a");
      await go.promise;
      for (let at = 0; at < 5; at++) {
        stream.write(at);
        await stream.flush();
      }
    });
    const many = Array.from({ length: 1000 }, () => readToEnd(v.mill, id));
    await v.advance(300);
    expect(reads.mock.calls.length).toBeLessThanOrEqual(4);
    expect(reads.mock.calls.every(([asked]) => asked.length === 1)).toBe(true);
    go.resolve();
    const all = await v.run(Promise.all(many));
    for (const frames of all) expect(frames.map(textOf)).toEqual(["a", 0, 1, 2, 3, 4, "ended completed"]);
    expect(reads.mock.calls.length).toBeLessThanOrEqual(14);
  });

  test("polls rarely while nothing is written, and not at all once nobody reads", async () => {
    const go = deferred();
    const reads = vi.spyOn(v.store, "readFrames");
    const id = await start(async () => go.promise);
    const reader = readToEnd(v.mill, id);
    await v.advance(1000);
    const before = reads.mock.calls.length;
    await v.advance(60_000);
    expect(reads.mock.calls.length - before).toBeLessThanOrEqual(16);
    go.resolve();
    await v.run(reader);
    const after = reads.mock.calls.length;
    await v.advance(60_000);
    expect(reads.mock.calls.length).toBe(after);
  });

  test("finds what was written without a hint by its poll", async () => {
    const watch = vi.spyOn(v.store, "watch").mockImplementation(() => () => undefined);
    const id = await start(({ stream }) => stream.write("a"));
    expect((await read(id)).map(textOf)).toEqual(["a", "ended completed"]);
    expect(watch).toHaveBeenCalled();
  });

  test("that takes nothing holds one page, however much is written", async () => {
    const go = deferred();
    const id = await start(async ({ stream }) => {
      for (let at = 0; at < 200; at++) {
        stream.write("x".repeat(20_000));
        await stream.flush();
        if (at === 0) await go.promise;
      }
    });
    const reads = vi.spyOn(v.store, "readFrames");
    const reader = v.mill.frames(id);
    await v.run(reader.next());
    const before = reads.mock.calls.length;
    go.resolve();
    await v.run(v.mill.handle(id).result());
    expect(reads.mock.calls.length).toBe(before);
    const rest: unknown[] = [];
    await v.run(
      (async () => {
        for await (const frame of reader) rest.push(textOf(frame));
      })(),
    );
    expect(rest).toHaveLength(200);
  });
});

test("a writer whose lease is lost leaves nothing after its successor has begun", async () => {
  const go = deferred();
  const wrote: string[] = [];
  let runs = 0;
  const id = await start(async ({ stream, signal }) => {
    const run = ++runs;
    stream.write(`of ${run}`);
    await stream.flush();
    if (run > 1) return;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await go.promise;
    stream.write("stale");
    await stream.flush();
    wrote.push("stale");
  });
  await v.advance(100);
  const [lost] = await v.run(v.store.readJobs([id]));
  expect(await v.run(v.store.readFrames([{ id, after: null, max: 1 }]))).toMatchObject([{ chunks: [{}] }]);
  await v.run(v.mill.jobs.revoke(id));
  await v.advance(30_000);
  expect((await v.run(v.store.readJobs([id])))[0]?.fence).toBeGreaterThan(lost?.fence as number);
  go.resolve();
  await v.run(v.mill.handle(id).result());
  await v.advance(1000);
  expect((await read(id)).map(textOf)).toEqual(["of 2", "ended completed"]);
  expect(wrote.length).toBeLessThanOrEqual(1);
});

test("over partitions, compressed and encrypted, readers get what was written", async () => {
  const encryption = { current: "k1", keys: { k1: new Uint8Array(32).fill(7) } };
  await v.reopen({ encryption, compression: { thresholdBytes: 10 } }, 3);
  await v.run(
    v.mill.work([
      handler(chat, ({ input, stream }) => {
        stream.write(`frame of ${String(input)} ${"x".repeat(500)}`);
        stream.summary({ of: input });
      }),
    ]),
  );
  const handles = await v.run(v.mill.enqueueMany(Array.from({ length: 9 }, (_, at) => chat.with(at))));
  for (const [at, { id }] of handles.entries()) {
    expect((await read(id)).map(textOf)).toEqual([`frame of ${at} ${"x".repeat(500)}`, "ended completed"]);
    expect((await v.run(v.mill.output(id))).summary).toEqual({ of: at });
    const [page] = await v.run(v.store.readFrames([{ id, after: null, max: 1 }]));
    expect(page?.kind === "ok" && page.chunks[0]?.body).not.toContain("frame");
  }
});
