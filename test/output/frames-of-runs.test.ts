// Output of durable runs: what a replay does not write again, and what another life of a part discards.
import { expect, test, vi } from "vitest";
import { handler, job } from "../../src/index.ts";
import type { Frame } from "../../src/index.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";
import { readToEnd, shownBy, textOf } from "./read-frames.ts";

const v = useVirtualMill();

const agent = job("agent", {
  durable: { version: 1 },
  retry: { attempts: 5, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

const read = (id: string, from?: string): Promise<Frame[]> =>
  v.run(readToEnd(v.mill, id, from === undefined ? {} : { from }));

test("frames of steps and of the code between them are written once, however often the run comes back", async () => {
  await v.run(
    v.mill.work([
      handler(agent, async ({ step, stream }) => {
        stream.write("begin");
        await step.run("think", () => stream.write("think"));
        stream.write("between");
        stream.summary({ thought: true });
        await step.sleep("nap", "1h");
        await step.run("act", () => stream.write("act"));
        stream.write("end");
      }),
    ]),
  );
  const { id } = await v.run(v.mill.enqueue(agent, {}));
  const frames = await read(id);
  expect(frames.map(textOf)).toEqual(["begin", "think", "between", "act", "end", "ended completed"]);
  expect(frames.map((frame) => (frame.kind === "data" ? frame.part : ""))).toEqual([
    ...["@0", "think#1", expect.stringMatching(/^@\d+$/), "act#1", expect.stringMatching(/^@\d+$/), ""],
  ]);
  expect((await v.run(v.mill.output(id))).summary).toEqual({ thought: true });
});

test("a step that runs again restarts its part alone, and a recorded one keeps its frames", async () => {
  let tries = 0;
  await v.run(
    v.mill.work([
      handler(agent, async ({ step, stream }) => {
        await step.run("first", () => stream.write("first"));
        await Promise.all([
          step.run("other", () => stream.write("other")),
          step.run(
            "flaky",
            async () => {
              tries += 1;
              stream.write(`flaky ${tries}`);
              await stream.flush();
              if (tries < 3) throw new Error("again");
            },
            { retry: { attempts: 5 } },
          ),
        ]);
      }),
    ]),
  );
  const { id } = await v.run(v.mill.enqueue(agent, {}));
  const frames = await read(id);
  expect(shownBy(frames)).toEqual(["first", "other", "flaky 3"]);
  expect(frames.filter(({ kind }) => kind === "restarted").map(textOf)).toEqual([
    "restarted flaky#1",
    "restarted flaky#1",
  ]);
  // A reader that comes later is told as well: the frames of earlier tries are kept with the run.
  expect(shownBy(await read(id))).toEqual(["first", "other", "flaky 3"]);
});

test("a run that lost its worker discards what the step that was cut off had sent, and nothing else", async () => {
  const cut = Promise.withResolvers<void>();
  let lives = 0;
  await v.run(
    v.mill.work([
      handler(agent, async ({ step, stream }) => {
        await step.run("first", () => {
          stream.write("first");
          stream.summary({ first: true });
        });
        await step.run("second", async () => {
          lives += 1;
          stream.write(`second of ${lives}`);
          await stream.flush();
          if (lives === 1) await cut.promise;
          stream.write("whole");
        });
        stream.summary({ second: true });
      }),
    ]),
  );
  const { id } = await v.run(v.mill.enqueue(agent, {}));
  const live = readToEnd(v.mill, id);
  await v.advance(200);
  await v.run(v.mill.jobs.revoke(id));
  await v.advance(30_000);
  cut.resolve();
  const frames = await v.run(live);
  expect(frames.map(textOf)).toEqual([
    ...["first", "second of 1", "restarted second#1", "second of 2", "whole", "ended completed"],
  ]);
  expect(shownBy(await read(id))).toEqual(["first", "second of 2", "whole"]);
  for (const { cursor } of frames) expect(shownBy(await read(id, cursor))).not.toContain("second of 1");
  expect(await v.run(v.mill.output(id))).toMatchObject({ summary: { first: true, second: true }, frames: 5 });
});

test("a run that has recorded nothing, and one that is begun anew, begin their output anew", async () => {
  let lives = 0;
  await v.run(
    v.mill.work([
      handler(agent, async ({ step, stream }) => {
        lives += 1;
        stream.write(`life ${lives}`);
        await stream.flush();
        if (lives === 1) throw new Error("again");
        await step.run("only", () => stream.write("only"));
      }),
    ]),
  );
  const { id } = await v.run(v.mill.enqueue(agent, {}));
  expect(shownBy(await read(id))).toEqual(["life 2", "only"]);
  await v.run(v.mill.jobs.retry(id, { fromStart: true }));
  await v.run(v.mill.handle(id).result());
  const again = await read(id);
  expect(again.map(textOf)).toEqual(["life 3", "only", "ended completed"]);
});

test("a step is recorded only after its frames are durable", async () => {
  const order: string[] = [];
  const given = v.store.recordIfLeased.bind(v.store);
  vi.spyOn(v.store, "recordIfLeased").mockImplementation((writes) => {
    for (const { frames, entries } of writes)
      order.push(...(frames === undefined ? [] : ["frames"]), ...(entries ?? []).map(({ key }) => key));
    return given(writes);
  });
  await v.run(
    v.mill.work([
      handler(agent, async ({ step, stream }) => {
        await step.run("a", () => stream.write("a"));
        await step.run("quiet", () => 1);
        await step.run("b", () => stream.write("b"));
      }),
    ]),
  );
  const { id } = await v.run(v.mill.enqueue(agent, {}));
  await v.run(v.mill.handle(id).result());
  const steps = order.filter((what) => what === "frames" || what.startsWith("end:"));
  expect(steps).toEqual(["frames", "end:a#1", "end:quiet#1", "frames", "end:b#1"]);
});

test("with keep, a long run keeps the newest frames over its lives", async () => {
  const short = job("short", { durable: { version: 1 }, frames: { keep: 3 } });
  await v.run(
    v.mill.work([
      handler(short, async ({ step, stream }) => {
        for (let at = 0; at < 6; at++) {
          await step.run(`s${at}`, () => {
            stream.write(`${at} a`);
            stream.write(`${at} b`);
          });
          await step.sleep(`n${at}`, "1m");
        }
      }),
    ]),
  );
  const { id } = await v.run(v.mill.enqueue(short, {}));
  await v.run(v.mill.handle(id).result());
  expect((await read(id)).map(textOf)).toEqual(["4 a", "4 b", "5 a", "5 b", "ended completed"]);
  expect((await v.run(v.mill.output(id))).frames).toBe(12);
});
