// Events on the command line: kept ones from the start or a cursor, new ones as they come.
import { describe, expect, test } from "vitest";
import { aStoreUrl, say, sayJson, startMillrace } from "./run-millrace.ts";

describe("tail", () => {
  test("shows what is kept, filtered, as lines or as JSON that goes on behind a cursor", async () => {
    const store = aStoreUrl();
    const ids: string[] = [];
    for (const name of ["mail", "bill", "mail"])
      ids.push(String((await sayJson(["enqueue", name, "1", "--store", store]))["id"]));
    const shown = await say(["tail", "--from", "start", "--name", "mail", "--limit", "2", "--store", store]);
    expect(shown.out).toMatch(
      new RegExp(`^\\S+ \\S+Z  submitted  mail ${ids[0]} in default\n.*mail ${ids[2]} in default\n$`),
    );
    const one = (from: string): Promise<Record<string, unknown>> =>
      sayJson(["tail", "--limit", "1", "--from", from, "--store", store]);
    const first = await one("start");
    expect(first).toMatchObject({ kind: "submitted", jobId: ids[0], cursor: expect.any(String) });
    expect(await one(String(first["cursor"]))).toMatchObject({ jobId: ids[1] });
  });

  test("goes on with what happens until it is told to stop", async () => {
    const store = aStoreUrl();
    await sayJson(["enqueue", "mail", "1", "--store", store]);
    const tail = startMillrace(["tail", "--from", "start", "--kinds", "submitted", "--store", store]);
    await tail.hears(/submitted/);
    const { id } = await sayJson(["enqueue", "mail", "2", "--store", store]);
    await tail.hears(new RegExp(String(id)));
    tail.child.kill("SIGTERM");
    expect(await tail.ended).toMatchObject({ code: 0, err: "" });
  });

  test("refuses kinds and cursors that do not exist", async () => {
    const store = aStoreUrl();
    await sayJson(["enqueue", "mail", "1", "--store", store]);
    for (const [option, value] of [
      ["--kinds", "finished"],
      ["--from", "yesterday"],
    ] as const) {
      const { code, err } = await say(["tail", option, value, "--store", store]);
      expect(code).toBe(option === "--kinds" ? 2 : 1);
      expect(err).toContain(value);
    }
  });
});
