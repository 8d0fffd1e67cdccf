// A worker process: what it needs to start, and how it stops.
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { until } from "../support/until.ts";
import { aFolder, aStoreUrl, millrace, root, say, sayJson, startMillrace } from "./run-millrace.ts";
import type { Running } from "./run-millrace.ts";

const index = JSON.stringify(join(root, "src", "index.ts"));

function aJobsFile(source: string, name = "jobs.ts"): string {
  const file = join(aFolder(), name);
  writeFileSync(file, `import { batchHandler, handler, job } from ${index};\n${source}\n`);
  return file;
}

/** Says "begun", then waits for as long as its input says, ignoring its signal. */
const slowJobs = `export const slow = handler(job<number>("slow"), async ({ input }) => {
  console.log("begun");
  await new Promise((resolve) => setTimeout(resolve, input));
  console.log("finished");
});`;

async function aSlowJob(
  ms: number,
  ...options: string[]
): Promise<{ store: string; worker: Running; id: string }> {
  const store = aStoreUrl();
  const { id } = await sayJson(["enqueue", "slow", String(ms), "--store", store]);
  const worker = startMillrace(["work", aJobsFile(slowJobs), "--store", store, ...options]);
  await worker.hears(/begun/);
  return { store, worker, id: String(id) };
}

describe("work stops", () => {
  test.each(["SIGTERM", "SIGINT"] as const)(
    "on %s: the running job finishes, the exit code is 0",
    async (signal) => {
      const { store, worker, id } = await aSlowJob(400);
      worker.child.kill(signal);
      const { code, out, err } = await worker.ended;
      expect(out).toMatch(
        /^millrace: worker \S+ runs slow; Ctrl-C stops it\nbegun\nfinished\n.* slow completed after .*\nmillrace: worker stopped, every handler ended\n$/,
      );
      expect(err).toBe(
        "millrace: stopping when the running handlers have ended; a second signal ends it at once\n",
      );
      expect(code).toBe(0);
      expect((await sayJson(["show", id, "--store", store]))["job"]).toMatchObject({
        state: "completed",
        attempt: 1,
      });
    },
  );

  test("and offers the capabilities that it was given", async () => {
    const store = aStoreUrl();
    const { id } = await sayJson(["enqueue", "slow", "1", "--requires", "gpu, eu", "--store", store]);
    const worker = startMillrace([
      "work",
      aJobsFile(slowJobs),
      "--store",
      store,
      "--capabilities",
      "eu,gpu,ssd",
    ]);
    await worker.hears(/finished/);
    worker.child.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
    expect((await sayJson(["show", String(id), "--store", store]))["job"]).toMatchObject({
      state: "completed",
      requires: ["eu", "gpu"],
    });
  });

  test("after its grace: the job goes back without having burnt an attempt", async () => {
    const file =
      aJobsFile(`export const slow = handler(job("slow"), ({ signal }) => new Promise((_, reject) => {
      console.log("begun");
      signal.addEventListener("abort", () => reject(signal.reason));
    }));`);
    const store = aStoreUrl();
    const { id } = await sayJson(["enqueue", "slow", "--store", store]);
    const worker = startMillrace(["work", file, "--store", store, "--grace", "50ms"]);
    await worker.hears(/begun/);
    worker.child.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
    expect((await sayJson(["show", String(id), "--store", store]))["job"]).toMatchObject({
      state: "ready",
    });
    const { why } = await sayJson(["explain", String(id), "--store", store]);
    expect(why).toMatch(/^No live worker serves the queue/);
  });

  test("at once on a second signal, and the job is not lost", async () => {
    const { store, worker, id } = await aSlowJob(60_000);
    worker.child.kill("SIGTERM");
    await worker.hears(/a second signal ends it at once/);
    worker.child.kill("SIGTERM");
    const { code, signal } = await worker.ended;
    expect([code, signal]).toEqual([null, "SIGTERM"]);
    expect((await sayJson(["show", id, "--store", store]))["job"]).toMatchObject({ state: "running" });
  });

  test("with --json: one document at the end, the first line on standard error", async () => {
    const { worker } = await aSlowJob(1, "--json", "--label", "w");
    await worker.hears(/finished/);
    worker.child.kill("SIGTERM");
    const { code, out, err } = await worker.ended;
    expect(err).toMatch(/^millrace: worker w-\w+ runs slow/);
    expect(JSON.parse(out.slice(out.indexOf("{")))).toEqual({
      worker: expect.stringMatching(/^w-/),
      notStopped: 0,
    });
    expect(code).toBe(0);
  });
});

describe("work shows", () => {
  const file = `export default [
    handler(job("send"), ({ log }) => { log.info("sending \\u001b[31m", { to: "ada" }); }),
    handler(job("refuse"), () => { throw new Error("no funds"); }),
    handler(job("last"), ({ log }) => { log.debug("bye"); }),
  ];`;

  async function runAll(...options: string[]): Promise<{ out: string; err: string }> {
    const store = aStoreUrl();
    for (const [at, name] of ["send", "refuse", "last"].entries())
      await sayJson(["enqueue", name, "--attempts", "1", "--id", `id-${at}`, "--store", store]);
    const worker = startMillrace([
      "work",
      aJobsFile(file),
      "--store",
      store,
      "--concurrency",
      "1",
      ...options,
    ]);
    const isOver = async (): Promise<boolean> =>
      ((await sayJson(["list", "--state", "completed", "--store", store]))["jobs"] as unknown[]).length === 2;
    await worker.hears(/no funds/);
    await until("two are completed", isOver);
    worker.child.kill("SIGTERM");
    return worker.ended;
  }

  test("a line per end and what handlers log, escaped; failures on standard error, once", async () => {
    const { out, err } = await runAll();
    const time = String.raw`\d{4}-\d\d-\d\d [\d:.]+Z`;
    expect(out).toMatch(
      new RegExp(String.raw`^${time}  id-0 info: sending \\u001b\[31m \{"to":"ada"\}$`, "m"),
    );
    expect(out).toMatch(new RegExp(`^${time}  id-0 send completed after [\\d.]+m?s$`, "m"));
    expect(out).toMatch(/ id-2 debug: bye$/m);
    expect(out).not.toContain("no funds");
    expect(err.split("\n").filter((line) => line.includes("no funds"))).toHaveLength(1);
    expect(err).toMatch(
      /^millrace error job failed for good: retries-exhausted \(attempt 1 of 1\) id="id-1"/m,
    );
  });

  test("which duties the environment has tuned", async () => {
    const env = { MILLRACE_DUTIES: "retention.batch=200,metrics=off", MILLRACE_SHUTDOWN_GRACE: "50ms" };
    const worker = startMillrace(["work", aJobsFile(file), "--store", aStoreUrl()], { env });
    await worker.hears(/Ctrl-C stops it/);
    worker.child.kill("SIGTERM");
    const { out } = await worker.ended;
    expect(out).toMatch(
      /^millrace: duty retention: 200 per pass, asleep up to 1m\nmillrace: duty metrics: off\nmillrace: worker /,
    );
    const wrong = await millrace(["work", aJobsFile(file), "--store", aStoreUrl()], {
      env: { MILLRACE_SHUTDOWN_GRACE: "soon" },
    });
    expect(wrong.err).toMatch(
      /^millrace: invalid-duration: MILLRACE_SHUTDOWN_GRACE: "soon" is not a duration/,
    );
  });

  test("with --quiet only what goes wrong", async () => {
    const { out, err } = await runAll("--quiet");
    expect(out).toMatch(/^millrace: worker .*\nmillrace: worker stopped, every handler ended\n$/);
    expect(err).toMatch(/no funds/);
  });
});

describe("work takes handlers", () => {
  test("from every export, alone, in arrays, as a batch and as the default, for the queues it is given", async () => {
    const file = aJobsFile(`
      const say = (name: string, queue = "default") => handler(job(name, { queue }), () => console.log("ran " + name + "."));
      export const one = say("one");
      export const more = [say("two"), [say("three", "other")]];
      export default batchHandler(job("four"), { size: 5 }, async (jobs) => { console.log("ran four x" + jobs.length + "."); });
      export const somethingElse = { kind: "single" };`);
    const store = aStoreUrl();
    for (const name of ["one", "two", "four"]) await sayJson(["enqueue", name, "--store", store]);
    await sayJson(["enqueue", "three", "--queue", "other", "--store", store]);
    const worker = startMillrace([
      "work",
      file,
      "--store",
      store,
      "--queues",
      "default",
      "--concurrency",
      "2",
    ]);
    for (const said of [/ran one\./, /ran two\./, /ran four x1\./]) await worker.hears(said);
    worker.child.kill("SIGTERM");
    const { out } = await worker.ended;
    expect(out).not.toContain("ran three");
    const { jobs } = (await sayJson(["list", "--state", "ready", "--store", store])) as {
      jobs: { name: string }[];
    };
    expect(jobs.map(({ name }) => name)).toEqual(["three"]);
  });

  test("and declares the schedules, subscriptions and defaults of queues that the file exports", async () => {
    const file = aJobsFile(`import { queue, schedule, subscription, topic } from ${index};
      const report = job<object>("report");
      export const run = handler(report, () => { console.log("ran."); });
      export const nightly = schedule("nightly", report, {}, { cron: "0 3 * * *" });
      export const more = [[subscription(topic("orders"), report)], queue("default", { attempts: 3 })];`);
    const store = aStoreUrl();
    const worker = startMillrace(["work", file, "--store", store]);
    await worker.hears(
      /declared the schedule nightly and the subscription orders\/report and the queue default\n/,
    );
    const { schedules } = (await sayJson(["schedules", "--store", store])) as { schedules: object[] };
    expect(schedules).toMatchObject([{ name: "nightly", job: { name: "report" } }]);
    const { queues } = (await sayJson(["queues", "--store", store])) as { queues: object[] };
    expect(queues).toMatchObject([{ queue: "default", attempts: 3 }]);
    await sayJson(["topics", "publish", "orders", "--store", store]);
    await worker.hears(/ran\./);
  });

  const refused: [title: string, source: string, sentence: RegExp][] = [
    ["without handlers", "export const nothing = 1;", /^millrace: no-handlers: .* exports no handler/],
    [
      "that throws",
      `throw new Error("no config \\u001b[31m");`,
      /^millrace: no-handlers: .* cannot be loaded: Error: no config \\u001b\[31m\n +at .*jobs\.ts:2:7\)?\n/,
    ],
    [
      "with a syntax error",
      "export const = 1;",
      /^millrace: no-handlers: .* cannot be loaded: SyntaxError.*\n\S+jobs\.ts:2\n(.*\n)?export const = 1;\n/,
    ],
    [
      "with two handlers for one name",
      `export const twice = [handler(job("a"), () => 1), handler(job("a"), () => 2)];`,
      /^millrace: duplicate-handler: Two handlers for "a"/,
    ],
  ];

  test.each(refused)("but refuses a file %s", async (_title, source, sentence) => {
    const { code, err } = await millrace(["work", aJobsFile(source), "--store", aStoreUrl()]);
    expect(err).toMatch(sentence);
    expect(err).not.toContain("node:internal");
    expect(code).toBe(1);
  });

  test("but refuses a module in a package of CommonJS, and says what to change", async () => {
    const file = join(aFolder(), "jobs.ts");
    writeFileSync(file, 'import { job } from "millrace";\nexport const a = job("a");\n');
    writeFileSync(join(dirname(file), "package.json"), '{ "type": "commonjs" }');
    const { code, err } = await millrace(["work", file, "--store", aStoreUrl()]);
    expect(err).toMatch(
      /cannot be loaded: SyntaxError: .* Set "type": "module" in the package\.json above it/,
    );
    expect(code).toBe(1);
  });

  test("but refuses a file that is not there, and a Node.js that does not strip types", async () => {
    const missing = await millrace(["work", "./no-such-file.ts", "--store", aStoreUrl()]);
    expect(missing.err).toMatch(/^millrace: no-handlers: "\.\/no-such-file\.ts" cannot be loaded: /);
    expect(missing.code).toBe(1);
    const unknown = await millrace(
      ["work", aJobsFile(slowJobs, "jobs.mts"), "--store", aStoreUrl(), "--json"],
      {
        env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(noStripping)}` },
      },
    );
    expect(JSON.parse(unknown.out)).toMatchObject({ error: { code: "unsupported-node" } });
    expect(unknown.code).toBe(1);
  });
});

describe("a config file", () => {
  const jobs = `const report = job<object>("report");
    export const run = handler(report, () => { console.log("ran."); });`;

  function aConfig(source: string): { folder: string; store: string } {
    const folder = dirname(aJobsFile(jobs));
    const text = `import { defineConfig, handler, job, schedule } from ${index};\nexport default ${source};\n`;
    writeFileSync(join(folder, "millrace.config.ts"), text);
    return { folder, store: `sqlite:${join(folder, "jobs.db")}` };
  }

  test("names the store and its options for every command, and what work runs", async () => {
    const { folder, store } = aConfig(`defineConfig({
      store: "sqlite:jobs.db",
      open: { encryption: { current: "a", keys: { a: "${"00".repeat(32)}" } }, postgres: { poolMax: 2 } },
      handlers: "./jobs.ts",
      schedules: [schedule("nightly", job<object>("report"), {}, { cron: "0 3 * * *" })],
      work: { label: "configured" },
    })`);
    const { out } = await millrace(["enqueue", "report", '{"secret":1}'], { cwd: folder });
    const worker = startMillrace(["work"], { cwd: folder });
    await worker.hears(/worker configured-\w+ runs report/);
    await worker.hears(/declared the schedule nightly/);
    await worker.hears(/ran\./);
    worker.child.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
    const shown = await millrace(["show", out.trim(), "--json"], { cwd: folder });
    expect(JSON.parse(shown.out)).toMatchObject({ job: { state: "completed", input: { secret: 1 } } });
    // Without the config the same store shows that the input was encrypted.
    const plain = await say(["show", out.trim(), "--json", "--store", store]);
    expect(plain.out).not.toContain('"secret"');
  });

  test("gives way to --store, MILLRACE_STORE and the words of the command line", async () => {
    const { folder, store } = aConfig(`{ store: "sqlite:./other.db", handlers: [], work: { label: "no" } }`);
    const { out } = await millrace(["enqueue", "report", "{}"], {
      cwd: folder,
      env: { MILLRACE_STORE: store },
    });
    const worker = startMillrace(["work", "jobs.ts", "--store", store, "--label", "mine"], { cwd: folder });
    await worker.hears(/worker mine-\w+ runs report/);
    await worker.hears(new RegExp(`${out.trim()} report completed`));
    expect(existsSync(join(folder, "other.db"))).toBe(false);
  });

  const refused: [title: string, source: string, sentence: RegExp][] = [
    ["an unknown option", "{ stor: 1 }", /unknown option "stor" \(did you mean "store"\?\)/],
    [
      "handlers that are none",
      "{ handlers: [1] }",
      /handlers must be a file, or a list of what handler\(\) makes/,
    ],
    ["a place that belongs into the URL", "{ open: { redis: { prefix: 'a' } } }", /put it into the URL/],
    ["a bucket's options", "{ open: { bucket: {} } }", /takes it from the environment/],
    ["an option of the worker with another place", "{ work: { schedules: [] } }", /give schedules beside it/],
    ["no object", "null", /must be an object/],
  ];

  test.each(refused)("with %s is refused before anything is opened", async (_title, source, sentence) => {
    const { folder, store } = aConfig(source);
    const { code, err } = await say([
      "list",
      "--config",
      join(folder, "millrace.config.ts"),
      "--store",
      store,
    ]);
    expect(err).toMatch(/^millrace: invalid-option: /);
    expect(err).toMatch(sentence);
    expect(code).toBe(2);
  });

  test("without handlers, or none at all, is refused by work", async () => {
    const { folder } = aConfig("{}");
    for (const cwd of [folder, aFolder()]) {
      const { code, err } = await millrace(["work", "--store", aStoreUrl()], { cwd });
      expect(err).toMatch(/^millrace: no-handlers: No handlers are named/);
      expect(code).toBe(1);
    }
  });
});

/** A loader that answers for the jobs file as a Node.js without type stripping does. */
const noStripping = `import { registerHooks } from "node:module";
registerHooks({ load(url, context, next) {
  if (url.endsWith("jobs.mts")) throw Object.assign(new TypeError('Unknown file extension ".mts"'), { code: "ERR_UNKNOWN_FILE_EXTENSION" });
  return next(url, context);
} });`;
