// Commands: a program per job, with its arguments as they are, its output and exit code kept, and nothing left behind.
import type { Duration } from "../../src/model/duration.ts";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { commandHandler, job, Millrace, Snooze } from "millrace";
import type { CommandInput, CommandOptions, CommandPlan, Handler } from "millrace";
import { until } from "../support/until.ts";
import { everything } from "./handlers/jobs.ts";
import { useWorkedMill } from "./open-mill.ts";
import { isAlive, pidIn } from "./process-state.ts";
import { hangMs } from "../support/hang-ms.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-commands-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const node = process.execPath;

/** The wish is the plan itself. */
const planned = ({ input }: { input: { value?: unknown } }): CommandPlan => input.value as CommandPlan;
const run = (value: CommandPlan): { do: string; value: CommandPlan } => ({ do: "run", value });

describe("a command", () => {
  const options: CommandOptions = {
    allow: [node, "sh", "setsid", "cat", "env", "no-such-program"],
    killGrace: "100ms",
    outputBytesMax: 200_000,
    result: ({ exitCode, stdout, stderr }) =>
      stdout === "again" ? new Snooze("1h") : { exitCode, stdout, stderr },
  };
  const worked = useWorkedMill(() => [commandHandler(everything, options, planned)]);
  const { grant, ended, wish } = worked;

  test("gets its arguments as they are, whatever a shell would make of them", async () => {
    const script = "process.stdout.write(JSON.stringify(process.argv.slice(1)))";
    const nasty = ["; rm -rf /", "$(id)", "`id`", "two  spaces", "", "*", "'\"\\"];
    const { stdout } = (await grant(run({ argv: [node, "-e", script, "--", ...nasty] }))) as {
      stdout: string;
    };
    expect(JSON.parse(stdout)).toEqual(nasty);
  });

  test("gets its standard input, its folder and its variables, and nothing else of the environment", async () => {
    process.env["SECRET_OF_THE_WORKER"] = "hush";
    expect(await grant(run({ argv: ["cat"], stdin: new TextEncoder().encode("é\n") }))).toMatchObject({
      stdout: "é\n",
    });
    const told = await grant(
      run({ argv: ["sh", "-c", "pwd; echo $FLAVOUR; env"], cwd: folder, env: { FLAVOUR: "sour" } }),
    );
    const { stdout } = told as { stdout: string };
    expect(stdout).toMatch(new RegExp(`^${folder}\nsour\n`));
    expect(stdout).not.toContain("SECRET_OF_THE_WORKER");
  });

  test("need not read its input", async () => {
    expect(await grant(run({ argv: ["sh", "-c", "exit 0"], stdin: "x".repeat(1_000_000) }))).toMatchObject({
      exitCode: 0,
    });
  });

  test("leaves its exit code and the end of its output with the attempt", async () => {
    const good = await ended(run({ argv: ["sh", "-c", "echo fine"] }));
    expect(good.attempts[0]).toMatchObject({
      outcome: "completed",
      output: { exitCode: 0, stdout: "fine\n" },
    });
    const bad = await ended(run({ argv: ["sh", "-c", "echo out; echo no such file >&2; exit 3"] }));
    expect(bad.failures[0]).toMatchObject({
      error: {
        code: "command-failed",
        message: 'The command "sh" ended with the exit code 3 (no such file).',
      },
      output: { exitCode: 3, stdout: "out\n", stderr: "no such file\n" },
    });
    const killed = await ended(run({ argv: ["sh", "-c", "kill -9 $$"] }));
    expect(killed.failures[0]).toMatchObject({
      error: { code: "command-failed" },
      output: { signal: "SIGKILL" },
    });
  });

  test("that is not on the allow list is refused for good", async () => {
    const job = await ended(run({ argv: ["/bin/sh", "-c", "echo hi"] }), { retry: { attempts: 3 } });
    expect([job.reason, job.attempt, job.failures[0]?.error?.code]).toEqual([
      ...["unrecoverable", 1, "command-not-allowed"],
    ]);
  });

  test("that does not exist fails its attempt", async () => {
    const { failures } = await ended(run({ argv: ["no-such-program"] }));
    expect(failures[0]?.error).toMatchObject({
      code: "command-failed",
      message: expect.stringMatching(/ENOENT/) as string,
    });
  });

  test.each<[plan: object, message: RegExp]>([
    [{}, /argv must be a list of texts/],
    [{ argv: [] }, /argv must be a list of texts/],
    [{ argv: ["sh", 5] }, /argv must be a list of texts/],
    [{ argv: ["sh", "a\0b"] }, /argv must be a list of texts/],
    [{ argv: ["sh"], stdin: 5 }, /stdin must be a text or bytes/],
    [{ argv: ["sh"], shell: true }, /unknown option "shell"/],
  ])("is refused with the plan %o", async (plan, message) => {
    const { failures } = await ended({ do: "run", value: plan });
    expect(failures[0]?.error?.message).toMatch(message);
  });

  test("that prints without end is ended", async () => {
    const { failures } = await ended(run({ argv: ["sh", "-c", "while :; do echo again and again; done"] }));
    expect(failures[0]?.error).toMatchObject({ code: "sandbox-overrun" });
  });

  test("may steer its job by what it printed", async () => {
    const { id } = await wish(run({ argv: ["sh", "-c", "printf again"] }));
    await expect.poll(async () => (await worked.mill.jobs.get(id))?.state).toBe("scheduled");
  });

  test("is ended by a cancel with all that it has started, in its group or out of it", async () => {
    const marks = ["plain", "escaped"].map((name) => join(folder, name));
    const script = `
      trap "" TERM
      loop='trap "" TERM; echo $$ > "$0"; while :; do sleep 0.05; done'
      sh -c "$loop" "$1" & setsid sh -c "$loop" "$2" & env -i setsid sh -c "$loop" "$2.bare" &
      wait`;
    const { id } = await wish(run({ argv: ["sh", "-c", script, "sh", ...marks] }));
    const pids = (): number[] => [...marks, `${marks[1]}.bare`].map(pidIn);
    await until("all have started", () => pids().every((pid) => pid > 0));
    expect(pids().map(isAlive)).toEqual([true, true, true]);
    await worked.mill.jobs.cancel(id);
    await until("the job has ended", async () => (await worked.mill.jobs.get(id))?.state === "cancelled");
    expect(pids().map(isAlive)).toEqual([false, false, false]);
  });
});

describe("a command of a handler", () => {
  test("may take as long as the handler says", async () => {
    expect(() => commandHandler(everything, { allow: ["sh"], timeout: "never" as never }, planned)).toThrow(
      /timeout/,
    );
  });

  const scripted = (timeout: Duration): Handler =>
    commandHandler(
      everything,
      {
        ...{ shell: 'echo "$1-$2" | tr a-z A-Z; sleep "$3"', timeout, exitCodes: [0, 9] },
        result: ({ stdout }) => stdout,
      },
      planned,
    );
  const { grant } = useWorkedMill(() => [scripted(hangMs)]);
  const { ended } = useWorkedMill(() => [scripted("300ms")]);

  test("runs as a script of the shell where the handler brings one, with the arguments as parameters", async () => {
    expect(await grant(run({ argv: ["$(id)", "b;c", "0"] }))).toBe("$(ID)-B;C\n");
  });

  test("is ended when its time is over", async () => {
    const { failures } = await ended(run({ argv: ["a", "b", "60"] }));
    expect(failures[0]).toMatchObject({
      error: { code: "command-failed", message: expect.stringMatching(/ran longer than 300ms/) as string },
      output: { signal: "SIGTERM" },
    });
  });

  test.each<[wrong: object, message: RegExp]>([
    [{}, /give the programs that may be run as allow, or a script as shell/],
    [{ allow: ["sh"], shell: "ls" }, /as allow, or a script as shell/],
    [{ allow: [] }, /allow must be a list/],
    [{ shell: "" }, /shell must be a text/],
    [{ allow: ["sh"], exitCodes: [256] }, /exitCodes/],
    [{ allow: ["sh"], result: "text" }, /result must be a function/],
    [{ allow: ["sh"], size: 0 }, /size/],
    [{ allow: ["sh"], retries: 1 }, /unknown option "retries"/],
  ])("is not set up with %o", (wrong, message) => {
    expect(() => commandHandler(everything, wrong as CommandOptions, planned)).toThrow(message);
  });
});

describe("a command that is the input of its job", () => {
  const root = join(folder, "root");
  mkdirSync(join(root, "in"), { recursive: true });
  mkdirSync(join(folder, "outside"));
  symlinkSync(join(folder, "outside"), join(root, "out"));
  const command = job<CommandInput, object>("command", { retry: { attempts: 3, backoff: "10ms" } });
  const script = job<CommandInput, object>("script", { retry: { attempts: 3, backoff: "10ms" } });
  const result = ({ exitCode, stdout }: { exitCode: number; stdout: string }) => ({ exitCode, stdout });
  const rootless = job<CommandInput, object>("rootless");
  const shell = 'printf "%s-" "$@"';
  let mill: Millrace;
  beforeAll(async () => {
    mill = await Millrace.open("sqlite::memory:", { log: false });
    await mill.work([
      commandHandler(command, { allow: ["sh", "cat"], root, allowEnv: ["FLAVOUR"], timeout: "1m", result }),
      commandHandler(script, { shell, result }),
      commandHandler(rootless, { allow: ["pwd"], result }),
    ]);
  });
  afterAll(() => mill.close());
  const runs = async (input: CommandInput, of = command): Promise<object> =>
    (await mill.enqueue(of, input)).result({ timeout: hangMs });

  test("runs under the root, with its variables, standard input and arguments", async () => {
    const say = "pwd; echo $FLAVOUR; cat";
    const input = { argv: ["sh", "-c", say], cwd: "in", env: { FLAVOUR: "sour" }, stdin: "bytes" };
    const real = realpathSync(root);
    expect(await runs(input)).toEqual({ exitCode: 0, stdout: `${join(real, "in")}\nsour\nbytes` });
    expect(await runs({ argv: ["sh", "-c", "pwd"] })).toEqual({ exitCode: 0, stdout: `${real}\n` });
    expect(await runs({ argv: ["a b", "$(id)"] }, script)).toEqual({ exitCode: 0, stdout: "a b-$(id)-" });
  });

  test("takes no longer than it asks for, nor than the handler says", async () => {
    const { id } = await mill.enqueue(command, { argv: ["sh", "-c", "sleep 60"], timeout: "50ms" }, once);
    await mill
      .handle(id)
      .result({ timeout: hangMs })
      .catch(() => {});
    expect((await mill.jobs.get(id))?.failures[0]?.error).toMatchObject({
      message: expect.stringMatching(/50ms/),
    });
  });

  const once = { retry: { attempts: 1 } };
  const refused: [title: string, input: CommandInput, code: string, of?: typeof command][] = [
    ["another program", { argv: ["id"] }, "command-not-allowed"],
    ["a folder above the root", { argv: ["cat"], cwd: "../outside" }, "command-not-allowed"],
    ["a link out of the root", { argv: ["cat"], cwd: "out" }, "command-not-allowed"],
    ["an absolute folder elsewhere", { argv: ["cat"], cwd: tmpdir() }, "command-not-allowed"],
    ["a folder that is not there", { argv: ["cat"], cwd: "none" }, "command-not-allowed"],
    ["a variable that changes the program", { argv: ["cat"], env: { PATH: "/tmp" } }, "command-not-allowed"],
    ["a folder without a root", { argv: ["pwd"], cwd: "/" }, "command-not-allowed", rootless],
    ["no program", {}, "invalid-option"],
    ["an unknown field", { argv: ["cat"], shell: "id" } as CommandInput, "invalid-option"],
    ["a time that is none", { argv: ["cat"], timeout: "soon" as Duration }, "invalid-duration"],
  ];

  test.each(refused)("is refused for good with %s", async (_title, input, code, of = command) => {
    const { id } = await mill.enqueue(of, input);
    await mill
      .handle(id)
      .result({ timeout: hangMs })
      .catch(() => {});
    expect(await mill.jobs.get(id)).toMatchObject({
      ...{ state: "failed", reason: "unrecoverable", attempt: 1, failures: [{ error: { code } }] },
    });
  });

  test("takes its bounds only without a plan", () => {
    const both = () => commandHandler(command, { allow: ["cat"], root }, () => ({ argv: ["cat"] }));
    expect(both).toThrow("root bounds the input of a handler without a plan");
    expect(() => commandHandler(command, { allow: ["cat"], allowEnv: [1] as never })).toThrow(
      "allowEnv must",
    );
  });
});
