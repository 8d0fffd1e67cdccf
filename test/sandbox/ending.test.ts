// However a run in a sandbox goes wrong, one attempt fails, nothing of it is left running, and the slot lives on.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { fileHandler, Millrace } from "millrace";
import type { ErrorCode } from "millrace";
import { until } from "../support/until.ts";
import { everything } from "./handlers/jobs.ts";
import { handlerFile } from "./handlers/file.ts";
import { everythingIn, useWorkedMill } from "./open-mill.ts";
import { isAlive, pidIn } from "./process-state.ts";
import { hangMs } from "../support/hang-ms.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-ending-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
/** Where a process writes its number. */
const markFile = (): string => join(folder, `mark-${++files}`);

describe.each(["thread", "process"] as const)('in a worker with run: "%s"', (run) => {
  const worked = useWorkedMill(() => [
    everythingIn(run, {
      killGrace: "100ms",
      memoryBytesMax: (run === "thread" ? 64 : 250) * 1024 * 1024,
      size: 1,
    }),
  ]);
  const { mill: _, wish, grant, ended } = worked;
  const expectLife = async (): Promise<void> =>
    expect(await grant({ do: "echo", value: "alive" })).toBe("alive");

  test("an exit fails the attempt with its exit code and its last words", async () => {
    const { failures } = await ended({ do: "exit" });
    expect(failures[0]).toMatchObject({
      error: { code: "sandbox-lost", message: expect.stringContaining("exit code 7") as string },
      output: { exitCode: 7, stdout: "last words on stdout\n", stderr: "last words on stderr\n" },
    });
    await expectLife();
  });

  test.each(["crash", "reject"])(
    "a %s that nobody catches fails the attempt and says what it was",
    async (what) => {
      const { failures } = await ended({ do: what });
      expect(failures[0]?.error).toMatchObject({
        code: "sandbox-lost",
        message: expect.stringMatching(/nobody (catches|awaits) this/) as string,
      });
      await expectLife();
    },
  );

  test("an endless loop is ended by its timeout", async () => {
    const { failures } = await ended({ do: "spin" }, { timeout: "50ms" });
    expect(failures[0]?.outcome).toBe("timed-out");
    await expectLife();
  });

  test("an endless loop is ended by a cancel", async () => {
    const { id } = await wish({ do: "spin" });
    await expect.poll(async () => (await worked.mill.jobs.get(id))?.state).toBe("running");
    await worked.mill.jobs.cancel(id);
    await expect.poll(async () => (await worked.mill.jobs.get(id))?.state).toBe("cancelled");
    await expectLife();
  });

  test("too much memory fails the attempt", async () => {
    const { failures } = await ended({ do: "hoard" });
    expect(["sandbox-overrun", "sandbox-lost"] satisfies ErrorCode[]).toContain(failures[0]?.error?.code);
    await expectLife();
  });

  test("too many Buffers, which lie outside of the heap, fail the attempt", async () => {
    const { failures } = await ended({ do: "hoard-buffers" });
    expect(failures[0]?.error?.code).toBe("sandbox-overrun" satisfies ErrorCode);
    await expectLife();
  });

  test("a timeout ends what the handler has started, also what ignores SIGTERM and has left its group", async () => {
    const [plain, escaped] = [markFile(), markFile()];
    // On a busy machine it may be over before both have started: then there is nothing to see yet.
    for (let seconds = 1; pidIn(plain) === 0 || pidIn(escaped) === 0; seconds *= 2) {
      const timeout = `${seconds}s`;
      const { failures } = await ended({ do: "children", value: [plain, escaped] }, { timeout });
      expect(failures[0]?.outcome).toBe("timed-out");
    }
    expect([pidIn(plain), pidIn(escaped)].map(isAlive)).toEqual([false, false]);
    await expectLife();
  });
});

describe.each(["thread", "process"] as const)('among quick jobs with run: "%s"', (run) => {
  const worked = useWorkedMill(() => [everythingIn(run, { killGrace: "100ms", size: 2 })]);

  test("one that crashes and one that spins fail alone, and all others complete", async () => {
    const wishes = Array.from({ length: 600 }, (_, index) => {
      if (index === 300) return everything.with({ do: "crash" });
      if (index === 400) return everything.with({ do: "spin" }, { timeout: "100ms" });
      return everything.with({ do: "echo", value: index });
    });
    const handles = await worked.mill.enqueueMany(wishes);
    const ends = await Promise.allSettled(handles.map((handle) => handle.result({ timeout: hangMs })));
    const failed = ends.flatMap(({ status }, index) => (status === "rejected" ? [index] : []));
    expect(failed).toEqual([300, 400]);
    expect((await worked.mill.jobs.get(handles[400]?.id ?? ""))?.failures[0]?.outcome).toBe("timed-out");
  });
});

describe("a process", () => {
  const worked = useWorkedMill(() => [everythingIn("process", { size: 1, recycle: { jobs: 3 } })]);
  const pid = async (): Promise<number> => ((await worked.grant({ do: "where" })) as { pid: number }).pid;

  test("is used again, and replaced after as many jobs as it may run", async () => {
    const pids = [await pid(), await pid(), await pid(), await pid()];
    expect(new Set(pids.slice(0, 3)).size).toBe(1);
    expect(pids[3]).not.toBe(pids[0]);
    await until("the first has ended", () => !isAlive(pids[0] as number));
  });

  test("that is killed from outside between two jobs is replaced", async () => {
    const before = await pid();
    process.kill(before, "SIGKILL");
    await until("it has ended", () => !isAlive(before));
    // The worker may not have heard of it yet.
    const next = await worked.grant({ do: "where" }, { retry: { attempts: 2, backoff: 0 } });
    expect(next).not.toEqual({ pid: before });
  });

  test("that is killed from outside fails the attempt in it", async () => {
    const before = await pid();
    const job = worked.ended({ do: "until-aborted" });
    await expect.poll(async () => (await worked.mill.jobs.counts()).default?.running).toBe(1);
    process.kill(before, "SIGKILL");
    expect((await job).failures[0]).toMatchObject({
      error: { code: "sandbox-lost" },
      output: { signal: "SIGKILL" },
    });
  });
});

describe("a worker", () => {
  const open = (): Promise<Millrace> => Millrace.open("sqlite::memory:", { log: false });

  test.each(["thread", "process", "inline"] as const)(
    'does not start while the file of a handler with run: "%s" cannot be loaded, and says why',
    async (run) => {
      await using mill = await open();
      const work = (file: string): Promise<unknown> =>
        mill.work([fileHandler(everything, { file: handlerFile(file), run })]);
      const refusal = (message: RegExp): unknown =>
        expect.objectContaining({
          code: "handler-not-loaded",
          message: expect.stringMatching(message) as string,
        });
      await expect(work("not-there")).rejects.toThrow(refusal(/not-there\.ts.*cannot be loaded/));
      await expect(work("throws-while-loading")).rejects.toThrow(refusal(/a setting is missing/));
      await expect(work("no-handler")).rejects.toThrow(refusal(/default export must be a function/));
    },
  );

  test("that stops ends what its handlers have started, and burns no attempt", async () => {
    const mill = await open();
    const [plain, escaped] = [markFile(), markFile()];
    const worker = await mill.work([everythingIn("process", { killGrace: "100ms" })], { abortGrace: "5s" });
    const { id } = await mill.enqueue(everything, { do: "children", value: [plain, escaped] });
    await until("both have started", () => pidIn(plain) > 0 && pidIn(escaped) > 0);
    expect(await worker.stop({ grace: 0 })).toEqual({ notStopped: 0 });
    expect([pidIn(plain), pidIn(escaped)].map(isAlive)).toEqual([false, false]);
    expect(await mill.jobs.get(id)).toMatchObject({ state: "ready", attempts: [] });
    await mill.close();
  });

  test("that is killed takes a child along that spins for ever", async () => {
    const file = fileURLToPath(new URL("./worker-process.ts", import.meta.url));
    const worker = spawn(process.execPath, ["--conditions=millrace-source", file], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(worker.stdout, "data")) as [Buffer];
    const child = Number(line.toString());
    expect(isAlive(child)).toBe(true);
    worker.kill("SIGKILL");
    await until("the child has ended too", () => !isAlive(child));
  });

  test.each(["process", "thread"] as const)(
    'that is killed takes along what left the process group of a handler with run: "%s"',
    async (run) => {
      const [plain, escaped] = [markFile(), markFile()];
      const file = fileURLToPath(new URL("./worker-process.ts", import.meta.url));
      const worker = spawn(process.execPath, ["--conditions=millrace-source", file, run, plain, escaped], {
        stdio: ["ignore", "ignore", "inherit"],
      });
      await until("both have started", () => pidIn(plain) > 0 && pidIn(escaped) > 0);
      worker.kill("SIGKILL");
      await expect.poll(() => [pidIn(plain), pidIn(escaped)].map(isAlive)).toEqual([false, false]);
    },
  );

  test("that has lost a lease ends the run at once", async () => {
    const mill = await open();
    const worker = await mill.work([everythingIn("process", { killGrace: "50ms" })]);
    const { id } = await mill.enqueue(everything, { do: "spin" });
    await expect.poll(async () => (await mill.jobs.get(id))?.state).toBe("running");
    await mill.jobs.revoke(id);
    await mill.jobs.cancel(id);
    await until("the run has ended", () => worker.running === 0);
    await mill.close();
  });
});
