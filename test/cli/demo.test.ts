// The demo as `npm start` runs it: on a file of its own, ended by itself, safe to run again on the same file.
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { aFolder, aStoreUrl, millrace, sayJson, startMillrace } from "./run-millrace.ts";

function forget(store: string): void {
  onTestFinished(() => rmSync(dirname(store.slice("sqlite:".length)), { recursive: true, force: true }));
}

/** What is said once a second; a machine that is busy may miss one. */
const status = /^ +[1-9]\d* s +scheduled \d+ +ready \d+ +running \d+ +completed \d+/m;

describe("the demo", () => {
  test("ends by itself with exit 0, shows counts, and leaves jobs behind that its hints really find", async () => {
    const path = join(aFolder(), "in-use.db");
    const { code, out, err } = await millrace(["demo", "--seconds", "2"], {
      env: { MILLRACE_STORE: `sqlite:${path}` },
    });
    expect(err).toBe("");
    expect(code).toBe(0);
    // It never touches a store that somebody uses.
    expect(existsSync(path)).toBe(false);
    const store = /export MILLRACE_STORE=(\S+)/.exec(out)?.[1] as string;
    forget(store);
    expect(out).toMatch(/^Millrace demo: /);
    expect(out).toMatch(status);
    // The queue of its first jobs; a machine that is busy may not come to those of the others.
    expect(out).toMatch(/\nreminders +\d/);
    expect(out).not.toContain("\u001b");
    const [failed, waiting] = [/ show (\S+)/, / explain (\S+)/].map((hint) => hint.exec(out)?.[1] as string);
    expect((await sayJson(["show", failed as string, "--store", store]))["job"]).toMatchObject({
      name: "charge-card",
      input: { card: "[redacted]" },
    });
    expect(await sayJson(["explain", waiting as string, "--store", store])).toMatchObject({
      state: "scheduled",
    });
    expect(await sayJson(["doctor", "--store", store])).toMatchObject({ ok: true });
  });

  test("runs again on the same store, and stops cleanly on Ctrl-C", async () => {
    const store = aStoreUrl();
    const first = await millrace(["demo", "--seconds", "1", "--store", store, "--json"]);
    expect(JSON.parse(first.out)).toMatchObject({
      store,
      failedId: expect.any(String),
      counts: { reminders: { scheduled: expect.any(Number) } },
    });
    const second = startMillrace(["demo", "--seconds", "600", "--store", store]);
    await second.hears(status);
    second.child.kill("SIGINT");
    const { code, out, err } = await second.ended;
    expect(err).toBe("");
    expect(out).toMatch(/After [\d.]+ s the file holds/);
    expect(code).toBe(0);
    expect(await sayJson(["list", "--state", "running", "--store", store])).toEqual({
      jobs: [],
      cursor: null,
      missing: [],
    });
  });
});
