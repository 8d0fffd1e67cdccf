/**
 * A fleet of real processes on each store: shares of a total follow joins, clean stops and kill -9; a cancel reaches a
 * handler of another process; a leader that was stopped inside its step is refused when it goes on. How soon is checked
 * on the virtual clock (prompt-heartbeats.test.ts, test/simulation/promptness.test.ts).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import { createServices } from "../../src/engine/services.ts";
import type { Services } from "../../src/engine/services.ts";
import { job, Millrace } from "../../src/index.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { startScript } from "../support/start-script.ts";
import type { StartedScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import type { MemberLine } from "./member-process.ts";

const script = fileURLToPath(new URL("member-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-members-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const endless = job<null>("endless", { queue: "shared" });
const cancels = 20;

let places = 0;
const urls: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, `jobs-${++places}.db`)}`],
  ["Postgres", () => `${database.url}?schema=members_${++places}`],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`],
];

class Member {
  readonly lines: MemberLine[] = [];
  readonly #started: StartedScript;

  constructor(role: "worker" | "holder", url: string) {
    this.#started = startScript(script, [role, url], (text) =>
      this.lines.push(JSON.parse(text) as MemberLine),
    );
  }

  said<Kind extends MemberLine["line"]>(kind: Kind): Extract<MemberLine, { line: Kind }>[] {
    return this.lines.filter((line): line is Extract<MemberLine, { line: Kind }> => line.line === kind);
  }

  signal(name: NodeJS.Signals): void {
    this.#started.signal(name);
  }

  kill(): Promise<void> {
    return this.#started.kill();
  }
}

describe.each(urls)("a fleet of processes on %s", (_store, place) => {
  const closeLater = closeAfterEach();
  const members: Member[] = [];
  const start = (...given: ConstructorParameters<typeof Member>): Member => {
    const member = new Member(...given);
    members.push(member);
    return member;
  };
  afterEach(() => Promise.all(members.splice(0).map((member) => member.kill())));

  test("shares a total anew when processes join, stop and are killed, and cancels across them", async () => {
    const url = place();
    const mill = closeLater(await Millrace.open(url, { log: false }));
    const shares = async (): Promise<string> =>
      (await mill.workers.list())
        .filter(({ mode }) => mode === "working")
        .map(({ slots }) => slots["shared"])
        .join();
    const [one, two, three] = [start("worker", url), start("worker", url), start("worker", url)];
    await until("all are ready", () => members.every((member) => member.said("ready").length === 1));
    await until("each has its share", async () => (await shares()) === "4,4,4");

    const handles = await mill.enqueueMany(Array.from({ length: cancels }, () => endless.with(null)));
    await until("all that may run do", async () => (await mill.jobs.counts())["shared"]?.running === 12);
    for (const { id } of handles) {
      await until("it runs", async () => (await mill.jobs.get(id))?.state === "running");
      expect(await mill.jobs.cancel(id)).toBe("signalled");
      const isAnnounced = (): boolean =>
        members.flatMap((member) => member.said("cancelled")).some((line) => line.id === id);
      await until("its handler was aborted", isAnnounced);
    }

    await two.kill();
    await until("the others have its share", async () => (await shares()) === "6,6");
    three.signal("SIGTERM");
    await until("the last has all", async () => (await shares()) === "12");
    const [worker] = await mill.workers.list();
    await mill.workers.stop(worker?.id ?? "");
    await until("it has stopped", () => one.said("stopped").length === 1);
    expect(await mill.workers.list()).toEqual([]);
  });

  test("refuses the late write of a leader that was stopped inside its step, also after another one has stopped", async () => {
    const url = place();
    const holder = start("holder", url);
    await until("it leads", () => holder.said("held").length === 1);
    const store = await openStore(nodePlatform, url);
    const { settings, log } = readMillraceOptions(nodePlatform, { log: false });
    const lead = async (): Promise<Services> => {
      const engine = createServices(store, nodePlatform, settings, log);
      engine.leadership.isCandidate = true;
      engine.heartbeat.start(() => ({}));
      await until("it leads", () => engine.leadership.isLeader);
      return engine;
    };
    await (await lead()).heartbeat.stop();
    await store.prune({ what: "expired", max: 100 });
    const engine = await lead();
    holder.signal("SIGCONT");
    await until("it has written", () => holder.said("wrote").length === 1);
    expect(holder.said("wrote")).toEqual([{ line: "wrote", answer: "doc-changed", isHeld: false }]);
    expect(await store.readJobs(["late"])).toEqual([null]);
    await engine.heartbeat.stop();
    await store.close();
  });
});
