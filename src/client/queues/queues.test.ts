import { describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { batchHandler, handler } from "../../worker/handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
const mail = job<number>("mail", { queue: "email" });
const v = useVirtualMill();
const open = {
  queue: "email",
  paused: false,
  pausedUntil: null,
  intakeClosed: false,
  concurrency: null,
  rate: null,
  localConcurrency: null,
  attempts: null,
  backoff: null,
  retention: null,
  total: null,
};

describe("a paused queue", () => {
  test("starts nothing until it is resumed, and then at once; running work finishes", async () => {
    const started: number[] = [];
    const gate = deferred();
    await v.run(
      v.mill.work([
        handler(mail, async ({ input }) => {
          started.push(input);
          await gate.promise;
        }),
      ]),
    );
    const first = await v.run(v.mill.enqueue(mail, 1));
    await v.advance(10);
    expect(await v.run(v.mill.queues.pause("email"))).toEqual({ ...open, paused: true });
    const second = await v.run(v.mill.enqueue(mail, 2));
    await v.advance(20_000);
    gate.resolve();
    await v.run(first.result());
    expect(started).toEqual([1]);
    expect(await v.run(v.mill.explain(second.id))).toMatchObject({
      ...{ held: { by: "pause", name: "email", until: null }, expectedAt: null },
      why: 'The queue "email" is paused until somebody resumes it.',
    });
    expect(await v.run(v.mill.jobs.counts())).toEqual({ email: { ready: 1, held: 1, completed: 1 } });
    expect(await v.run(v.mill.queues.resume("email"))).toEqual(open);
    await v.advance(10);
    expect(started).toEqual([1, 2]);
  });

  test("for a time goes on by itself", async () => {
    await v.run(v.mill.work([handler(mail, async () => undefined)]));
    const paused = await v.run(v.mill.queues.pause("email", { for: "10m" }));
    expect(paused.pausedUntil!.getTime() - v.platform.now()).toBe(600_000);
    const handle = await v.run(v.mill.enqueue(mail, 1));
    await v.advance(599_000);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.state).toBe("ready");
    await v.advance(1010);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.state).toBe("completed");
    expect(await v.run(v.mill.queues.settings("email"))).toEqual(open);
  });

  test("takes back jobs that a worker claimed but did not start, without using up an attempt", async () => {
    const batches: number[] = [];
    const gather = batchHandler(
      mail,
      { size: 3, wait: "1h" },
      async (jobs) => void batches.push(jobs.length),
    );
    const worker = await v.run(v.mill.work([gather]));
    await v.run(v.mill.enqueueMany([mail.with(1), mail.with(2)]));
    await v.advance(10);
    expect([worker.running, worker.held]).toEqual([0, 2]);
    await v.run(v.mill.queues.pause("email"));
    await v.advance(10);
    expect(worker.held).toBe(0);
    await v.run(v.mill.enqueue(mail, 3));
    await v.advance(7_200_000);
    const { jobs } = await v.run(v.mill.jobs.list());
    expect(jobs.map(({ state, attempts, held }) => [state, attempts.length, held?.by])).toEqual(
      Array.from({ length: 3 }, () => ["ready", 0, "pause"]),
    );
    await v.run(v.mill.queues.resume("email"));
    await v.advance(10);
    expect(batches).toEqual([3]);
    expect((await v.run(v.mill.jobs.list())).jobs.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
  });
});

describe("a queue with a closed intake", () => {
  test("refuses new jobs by a code of its own, and runs those that are there", async () => {
    const handle = await v.run(v.mill.enqueue(mail, 1));
    expect(await v.run(v.mill.queues.closeIntake("email"))).toEqual({ ...open, intakeClosed: true });
    const refused = v.mill.enqueue(mail, 2);
    await expect(v.run(refused)).rejects.toMatchObject({
      code: "intake-closed",
      message: expect.stringContaining('The queue "email" takes no new jobs'),
    });
    await v.run(v.mill.work([handler(mail, async () => undefined)]));
    await v.run(handle.result());
    expect(await v.run(v.mill.queues.openIntake("email"))).toEqual(open);
    expect((await v.run(v.mill.enqueue(mail, 3))).created).toBe(true);
  });
});

describe("the settings of a queue", () => {
  test("hold for all its jobs, survive a pause, and null removes a bound", async () => {
    const rate = { max: 60, per: "1m", burst: 1 } as const;
    await v.run(v.mill.queues.set("email", { concurrency: 5, rate }));
    await v.run(v.mill.queues.pause("email"));
    await v.run(v.mill.queues.resume("email"));
    const shown = { max: 60, perMs: 60_000, burst: 1 };
    expect(await v.run(v.mill.queues.settings("email"))).toEqual({ ...open, concurrency: 5, rate: shown });
    const starts: number[] = [];
    await v.run(v.mill.work([handler(mail, async () => void starts.push(v.platform.now()))]));
    const begunAt = v.platform.now();
    const handles = await v.run(v.mill.enqueueMany([mail.with(1), mail.with(2)]));
    await v.advance(10);
    const heldOne = await v.run(v.mill.jobs.list({ state: "ready" }));
    expect(heldOne.jobs).toMatchObject([{ held: { by: "queue", name: "email" } }]);
    await v.run(Promise.all(handles.map((handle) => handle.result())));
    expect(starts.map((at) => Math.round((at - begunAt) / 100))).toEqual([0, 10]);
    expect(await v.run(v.mill.queues.set("email", { rate: null }))).toEqual({ ...open, concurrency: 5 });
  });

  test("are listed with every queue that ever had a job", async () => {
    await v.run(v.mill.enqueue(mail, 1));
    await v.run(v.mill.queues.pause("audio"));
    expect(await v.run(v.mill.queues.list())).toEqual([{ ...open, queue: "audio", paused: true }, open]);
  });

  test.each([
    ["a pause of 0", () => v.mill.queues.pause("email", { for: 0 }), "invalid-option"],
    ["a pause of a negative length", () => v.mill.queues.pause("email", { for: -1 }), "invalid-duration"],
    ["an unknown option", () => v.mill.queues.pause("email", { during: 1 } as never), "invalid-option"],
    ["an empty name", () => v.mill.queues.closeIntake(""), "invalid-name"],
    ["nothing to set", () => v.mill.queues.set("email", {}), "invalid-option"],
    ["a rate of 0", () => v.mill.queues.set("email", { rate: { max: 0, per: 1 } }), "invalid-option"],
  ])("refuse %s", async (_what, act, code) => {
    await expect(v.run(act())).rejects.toThrow(coded(code));
    expect(await v.run(v.mill.queues.list())).toEqual([]);
  });
});

test("a change emits its event in the same step, so a process that dies right after it has emitted it", async () => {
  const never = (): Promise<never> => new Promise(() => undefined);
  let isDead = false;
  const dying = {
    ...v.store,
    async putGates(...given: Parameters<typeof v.store.putGates>) {
      const answer = await v.store.putGates(...given);
      isDead = true;
      return answer;
    },
    putDocs: (...given: Parameters<typeof v.store.putDocs>) => (isDead ? never() : v.store.putDocs(...given)),
    readGates: (...given: Parameters<typeof v.store.readGates>) =>
      isDead ? never() : v.store.readGates(...given),
  };
  void millOn(dying, { duties: false }, v.platform).queues.pause("email", { for: "1m" });
  await v.advance(1000);
  const { records } = await v.store.readFeed({ after: 0, max: 10 });
  const emitted = records.flatMap(({ events }) => events).filter(({ kind }) => kind === "queue-changed");
  expect(emitted).toMatchObject([{ id: "email" }]);
  expect(JSON.parse(String(emitted[0]?.extra))).toMatchObject({ queue: "email", paused: true });
});
