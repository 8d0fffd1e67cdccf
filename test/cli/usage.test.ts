// Wrong usage: one line, a hint, exit 2, and nothing is touched. The same as one JSON document with --json.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { aFolder, lookingCommands, millrace, millraceJson, say } from "./run-millrace.ts";

describe("wrong usage", () => {
  const wrong: [args: string[], sentence: RegExp][] = [
    [["frobnicate"], /there is no command "frobnicate"/],
    [["lsit"], /there is no command "lsit"\.$/],
    [["lst"], /there is no command "lst" \(did you mean "list"\?\)/],
    [["list", "--colour", "red"], /unknown option "--colour"/],
    [["list", "--quue", "red"], /unknown option "--quue" \(did you mean "queue"\?\)/],
    [["queues", "pausse", "mail"], /queues knows the verbs .*, not "pausse" \(did you mean "pause"\?\)/],
    [["list", "--__proto__", "x"], /unknown option "--__proto__"/],
    [["list", "--limit"], /--limit needs a value/],
    [["list", "--limit", "--help"], /--limit needs a value/],
    [["list", "--limit", "many"], /--limit must be a whole number from 1 to 500, not "many"/],
    [["list", "--limit", "501"], /--limit must be a whole number/],
    [["list", "--state", "sleeping"], /--state must be one of blocked, scheduled, .*, not "sleeping"/],
    [["list", "--queue", " "], /--queue is blank/],
    [["list", "extra"], /too many arguments, from "extra" on/],
    [["list", "--json=yes"], /--json takes no value/],
    [["list", "--queue", "a", "--queue", "b"], /--queue is given twice/],
    [["show"], /show needs an ID: millrace show ID/],
    [["enqueue", "send", "{not json"], /The input is not JSON/],
    [["enqueue", "send", "1", "--delay", "soon"], /invalid-duration: .*delay: "soon" is not a duration/],
    [["enqueue", "send", "1", "--delay=-5s"], /invalid-duration/],
    [["enqueue", "send", "1", "--priority", "top"], /priority must be/],
    [["enqueue", "send", "1", "--attempts", "0"], /--attempts must be a whole number/],
    [["enqueue", "send", "1", "--tags", "a,,b"], /--tags has an empty entry/],
    [["enqueue", "a\u001b[2Jb", "1"], /invalid-name: .*control characters/],
    [["retry"], /give either an ID or a filter/],
    [["retry", "id", "--state", "failed"], /give either an ID or a filter/],
    [["retry", "--state", "running"], /--state must be one of completed/],
    [["retry", "--state", "failed", "--input", "1"], /--input goes with one ID/],
    [["cancel"], /give either an ID or a filter/],
    [["purge"], /give a filter/],
    [["purge", "--state", "running"], /--state must be one of/],
    [["list", "--after", "soon"], /--after must be a time such as 2026-01-31T12:00Z or an age such as 2h/],
    [["list", "--before", "2026-13-41"], /--before must be a time/],
    [["reschedule", "x"], /give either --delay or --at/],
    [["reschedule", "x", "--at", "1h"], /--at must be a time such as/],
    [["reschedule", "x", "--at", "2030-01-01", "--delay", "1h"], /give either --delay or --at/],
    [["edit", "x"], /give --input, --priority, --headers or --tags/],
    [["run-now", "x", "--input", "{"], /--input is not JSON/],
    [["duties", "stop"], /duties knows the verb run, not "stop"/],
    [["duties", "run"], /needs a NAME/],
    [
      ["queues", "stop", "email"],
      /queues knows the verbs pause, resume, close-intake, open-intake, reset, set, not "stop"/,
    ],
    [["queues", "pause"], /queues pause needs a QUEUE/],
    [["queues", "--for", "1m"], /--for has no meaning without a verb/],
    [["queues", "resume", "email", "--for", "1m"], /--for has no meaning with resume/],
    [["queues", "set", "email", "--rate", "fast"], /--rate must be a number and a time such as 100\/1m/],
    [["queues", "set", "email", "--burst", "2"], /--burst needs a --rate/],
    [["limits", "edit", "slack", "--concurrency", "0"], /--concurrency must be a whole number/],
    [["limits", "look", "slack"], /limits knows the verbs show, edit, throttle, reset/],
    [["limits", "edit", "slack", "--key", "a", "--key-rate", "1/1s"], /--key names one key/],
    [["budgets", "edit", "tokens", "--hard", "0"], /--hard must be a whole number/],
    [["budgets", "edit", "tokens", "--key", "a", "--key-hard", "1"], /--key names one key/],
    [["budgets", "refund", "tokens"], /needs --amount/],
    [["budgets", "refund", "tokens", "--amount", "-1"], /--amount must be a whole number/],
    [["demo", "--seconds", "0"], /--seconds must be a whole number/],
    [["help", "frobnicate"], /there is no command/],
  ];

  test.each(wrong)("%j is refused in one line with a hint", async (args, sentence) => {
    const folder = aFolder();
    const path = join(folder, "jobs.db");
    const { code, out, err } = await say(args, { MILLRACE_STORE: `sqlite:${path}` });
    const [line = "", hint = "", ...rest] = err.trimEnd().split("\n");
    expect(line).toMatch(/^millrace: invalid-(option|name|duration): /);
    expect(line).toMatch(sentence);
    expect(hint).toMatch(/^Try: millrace help/);
    expect(rest).toEqual([]);
    expect(out).toBe("");
    expect(code).toBe(2);
    expect(existsSync(path)).toBe(false);
  });

  test("with --json it is one document on standard output", async () => {
    const { code, out, err } = await say(["list", "--limit", "x", "--json"]);
    expect(JSON.parse(out)).toEqual({
      error: {
        code: "invalid-option",
        message: '--limit must be a whole number from 1 to 500, not "x".',
        retryable: false,
        outcome: "did-not-happen",
      },
    });
    expect(err).toBe("");
    expect(code).toBe(2);
  });
});

describe("the store", () => {
  test("must be named, and a blank variable does not name it", async () => {
    for (const value of ["", "  "]) {
      const { code, err } = await say(["list", "--store", ""], { MILLRACE_STORE: value });
      expect(err).toMatch(/^millrace: unknown-store: No store is named/);
      expect(code).toBe(2);
    }
  });

  test("of a scheme that comes later is refused as not yet supported, an unknown one as unknown", async () => {
    const later = await say(["list", "--store", "https://millrace.example"]);
    expect(later.err).toMatch(/^millrace: not-yet-supported: /);
    expect(later.code).toBe(1);
    const unknown = await say(["list", "--store", "jobs.db"]);
    expect(unknown.err).toMatch(/^millrace: unknown-store: /);
    expect(unknown.code).toBe(2);
  });

  test.each(lookingCommands)(
    "%j refuses a file that is not there or is no store, and leaves it so",
    async (...args) => {
      const folder = aFolder();
      const [missing, empty, foreign] = ["nowhere.db", "empty.db", "foreign.db"].map((name) =>
        join(folder, name),
      );
      writeFileSync(empty as string, "");
      new DatabaseSync(foreign as string).exec("CREATE TABLE theirs (id)");
      for (const path of [missing, empty, foreign] as string[]) {
        const before = existsSync(path) ? readFileSync(path) : null;
        const { code, err } = await say([...args, "--store", `sqlite:${path}`]);
        expect(err).toMatch(/^millrace: store-missing: There is no store of Millrace at ".*\.db"/);
        expect(err.trimEnd().split("\n")).toHaveLength(1);
        expect(code).toBe(1);
        expect(existsSync(path) ? readFileSync(path) : null).toEqual(before);
      }
    },
  );

  test("in a folder that does not exist is refused by enqueue", async () => {
    const { code, err } = await millrace([
      "enqueue",
      "send",
      "--store",
      `sqlite:${join(aFolder(), "no", "jobs.db")}`,
    ]);
    expect(err).toMatch(/^millrace: store-unavailable: /);
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect(code).toBe(1);
  });
});

describe("help and version", () => {
  test("help names every command, and each command explains itself", async () => {
    const { commands } = (await millraceJson(["help"])) as { commands: { name: string }[] };
    expect(commands.map(({ name }) => name)).toEqual([
      "demo",
      "work",
      "enqueue",
      "list",
      "counts",
      "flows",
      "show",
      "logs",
      "tail",
      "explain",
      "retry",
      "cancel",
      "run-now",
      "reschedule",
      "edit",
      "revoke",
      "delete",
      "purge",
      "signal",
      "approvals",
      "check",
      "top",
      "metrics",
      "workers",
      "queues",
      "limits",
      "budgets",
      "schedules",
      "topics",
      "webhooks",
      "duties",
      "doctor",
      "bench",
      "restore",
      "migrate",
      "version",
      "help",
    ]);
    const { out } = await say(["help"]);
    for (const { name } of commands) expect(out).toContain(`  ${name} `);
    const one = await say(["work", "--help"]);
    expect(one.out).toMatch(/^millrace work \[JOBS-FILE\]/);
    expect(one.out).toContain("--queues A,B");
    expect(one.code).toBe(0);
  });

  test("the operating guide names every command", async () => {
    const { commands } = (await millraceJson(["help"])) as { commands: { name: string }[] };
    const guide = readFileSync(new URL("../../docs/guides/operating.md", import.meta.url), "utf8");
    const [, table = ""] = guide.split("| command | does |");
    const cells = [...table.matchAll(/^\| (`.*?`) \| /gm)].flatMap(([, cell = ""]) =>
      cell.match(/`[a-z-]+/g),
    );
    const named = new Set(cells.map((cell) => cell?.slice(1)));
    const missing = commands.map(({ name }) => name).filter((name) => !named.has(name));
    expect(missing).toEqual(["demo", "version", "help"]);
  });

  test("no command at all shows the help", async () => {
    const { code, out } = await say([]);
    expect(out).toMatch(/^millrace: durable jobs/);
    expect(code).toBe(0);
  });

  test("version says both versions", async () => {
    expect(await millraceJson(["version"])).toEqual({
      millrace: expect.stringMatching(/^\d+\.\d+\.\d+/),
      node: process.versions.node,
    });
    expect((await say(["--version"])).out).toMatch(/^millrace \d/);
  });

  test("a real process ends with the same code and text", async () => {
    const { code, out, err } = await millrace(["list", "--colour", "red"]);
    expect(err).toBe('millrace: invalid-option: unknown option "--colour".\nTry: millrace help list\n');
    expect(out).toBe("");
    expect(code).toBe(2);
  });

  test("an old Node.js is told so", async () => {
    const { code, err } = await say(["version"], {}, { nodeVersion: "20.19.0" });
    expect(err).toBe(
      "millrace: unsupported-node: This is Node.js 20.19.0; Millrace needs 22.18 or newer. Upgrade Node.js.\n",
    );
    expect(code).toBe(1);
  });
});
