import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { aJob as buildJob, aRoute } from "../../../../test/support/builders.ts";
import type { NewJob } from "../../../store/records.ts";
import { openSession, commitCalls } from "./commit.ts";
import type { Call, CallOutcome } from "./commit.ts";
import { configure } from "./open-file.ts";
import { migrate } from "./migrate.ts";

function memorySession() {
  const database = new DatabaseSync(":memory:");
  configure(database, { path: ":memory:", durability: "strict", lockSleepMs: 0 });
  migrate(database, ":memory:");
  return openSession(database, { path: ":memory:", epoch: 1, opener: null, identity: null });
}

const aJob = (id: string, given: Partial<NewJob> = {}): NewJob => buildJob({ id, ...given });

const submit = (...jobs: NewJob[]): Call => ({ operation: "submit", request: [{ jobs }] });
const codes = (outcomes: readonly CallOutcome[]) =>
  outcomes.map((outcome) =>
    outcome.kind === "error" ? ((outcome.error as { code?: string }).code ?? "other") : outcome.kind,
  );

describe("the calls of one flush", () => {
  it("share one transaction, and each emits its own record", () => {
    const group = commitCalls(memorySession(), [submit(aJob("one")), submit(aJob("two"))], 1000);
    expect(codes(group.outcomes)).toEqual(["answer", "answer"]);
    expect(group.emitted).toEqual([1, 2]);
  });

  it("fail alone: a call that breaks leaves the others of its flush whole", () => {
    const session = memorySession();
    // A minted id that is there twice is a wrong program, and SQLite stops it.
    const { outcomes } = commitCalls(
      session,
      [submit(aJob("one")), submit(aJob("one", { queue: "new" })), submit(aJob("two", { queue: "new" }))],
      1000,
    );
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(["answer", "error", "answer"]);
    const [stateCounts] = commitCalls(session, [{ operation: "countJobs", request: null }], 1000).outcomes;
    expect(stateCounts).toMatchObject({
      kind: "answer",
      answer: [
        { queue: "mail", count: 1 },
        { queue: "new", count: 1 },
      ],
    });
  });

  it("are refused as store-full when there is no room, and go on when there is", () => {
    const session = memorySession();
    const [pages] = session.statements("PRAGMA page_count").get() as [number];
    session.database.exec(`PRAGMA max_page_count = ${pages + 2}`);
    const big = submit(aJob("big", { input: "x".repeat(100_000) }));
    expect(codes(commitCalls(session, [big], 1000).outcomes)).toEqual(["store-full"]);
    expect(codes(commitCalls(session, [big, submit(aJob("small"))], 1000).outcomes)).toEqual([
      "store-full",
      "answer",
    ]);
    session.database.exec("PRAGMA max_page_count = 100000");
    expect(codes(commitCalls(session, [big], 1000).outcomes)).toEqual(["answer"]);
  });

  it("refuse another content under a route's number before anything is written, each call for itself", () => {
    const session = memorySession();
    const number = aRoute({ name: "other" });
    session
      .statements("INSERT INTO millrace_route VALUES (?, 'mail', 'stranger', '[]', '[]', NULL)")
      .run(number);
    const { outcomes } = commitCalls(
      session,
      [submit(aJob("one")), submit(aJob("two"), aJob("three", { name: "other" }))],
      1000,
    );
    expect(codes(outcomes)).toEqual(["answer", "route-collision"]);
    const [read] = commitCalls(session, [{ operation: "readJobs", request: ["one", "two"] }], 1000).outcomes;
    expect(read).toMatchObject({ kind: "answer", answer: [{ id: "one" }, null] });
  });

  it("restore the capabilities of a route that were damaged", () => {
    const session = memorySession();
    const requires = ["gpu"];
    commitCalls(session, [submit(aJob("one", { requires }))], 1000);
    session.database.exec("UPDATE millrace_route SET requires = '[bro'");
    const read = () =>
      commitCalls(session, [{ operation: "readJobs", request: ["one"] }], 1000).outcomes as unknown;
    expect(read()).toMatchObject([{ kind: "answer", answer: [{ id: "one", queue: "mail" }] }]);
    session.routes.clear();
    expect(codes(commitCalls(session, [submit(aJob("two", { requires }))], 1000).outcomes)).toEqual([
      "answer",
    ]);
    expect(read()).toMatchObject([{ kind: "answer", answer: [{ id: "one", requires }] }]);
  });

  it("never see the store's time go back", () => {
    const session = memorySession();
    commitCalls(session, [submit(aJob("one"))], 5000);
    const [now] = commitCalls(session, [{ operation: "readNow", request: null }], 1000).outcomes;
    expect(now).toEqual({ kind: "answer", answer: 5000 });
    const again = openSession(session.database, { path: ":memory:", epoch: 1, opener: null, identity: null });
    expect(commitCalls(again, [{ operation: "readNow", request: null }], 1000).outcomes[0]).toEqual({
      kind: "answer",
      answer: 5000,
    });
  });
});
