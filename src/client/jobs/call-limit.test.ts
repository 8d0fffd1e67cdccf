import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";

const v = useVirtualMill();
const plain = job<{ n: number }>("plain");
const coded = (code: string) => expect.objectContaining({ code });
const never = (): Promise<never> => new Promise(() => {});

async function refusalOf(promise: Promise<unknown>): Promise<MillraceError> {
  const error: unknown = await v.run(
    promise.then(
      () => null,
      (reason: unknown) => reason,
    ),
  );
  expect(error).toBeInstanceOf(MillraceError);
  return error as MillraceError;
}

/** From now on every submit happens and its reply is lost. @returns a function that ends this. */
function loseReplies(): () => void {
  const submit = v.store.submit.bind(v.store);
  v.store.submit = async (units) => {
    await submit(units);
    throw new MillraceError("outcome-unknown", "the reply was lost");
  };
  return () => void (v.store.submit = submit);
}

describe("an enqueue whose outcome is unknown", () => {
  test("names the ids of its jobs; a repeat with them makes no second job", async () => {
    const keepReplies = loseReplies();
    const error = await refusalOf(v.mill.enqueue(plain, { n: 1 }));
    expect(error).toMatchObject({ code: "outcome-unknown", outcome: "unknown", ids: [expect.any(String)] });
    keepReplies();
    const again = await v.run(v.mill.enqueue(plain, { n: 1 }, { repeatOf: error.ids![0]! }));
    expect([again.id, again.how]).toEqual([error.ids![0], "existing"]);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 1 } });
  });

  test("of many jobs names all ids in order, even if no job was made", async () => {
    const submit = v.store.submit.bind(v.store);
    v.store.submit = () => Promise.reject(new MillraceError("outcome-unknown", "nobody knows"));
    const { ids } = await refusalOf(v.mill.enqueueMany([plain.with({ n: 1 }), plain.with({ n: 2 })]));
    v.store.submit = submit;
    const repeated = [1, 2].map((n, index) => plain.with({ n }, { repeatOf: ids![index]! }));
    const handles = await v.run(v.mill.enqueueMany(repeated));
    expect(handles.map(({ id, how }) => [id, how])).toEqual(ids!.map((id) => [id, "created"]));
    expect((await v.run(v.mill.jobs.get(plain, ids![1]!)))?.input).toEqual({ n: 2 });
  });

  test("cannot be repeated with an id that it did not name, or together with an id", async () => {
    for (const options of [
      { repeatOf: "mine" },
      { repeatOf: 5 as never },
      { repeatOf: "0".repeat(21), id: "a" },
    ])
      await expect(v.run(v.mill.enqueue(plain, { n: 1 }, options))).rejects.toThrow(coded("invalid-option"));
  });
});

describe("the limit of a call", () => {
  test("ends a write as unknown, with its ids, and a read as a wait", async () => {
    v.store.submit = never;
    v.store.readJobs = never;
    v.store.changeIf = never;
    v.store.readDocs = never;
    const from = v.platform.time.now;
    const late = await refusalOf(v.mill.enqueue(plain, { n: 1 }, {}, { timeout: "2s" }));
    expect(late).toMatchObject({ code: "outcome-unknown", outcome: "unknown", ids: [expect.any(String)] });
    expect(v.platform.time.now - from).toBe(2000);
    await expect(v.run(v.mill.jobs.get("a", { timeout: 5 }))).rejects.toThrow(coded("wait-timeout"));
    await expect(v.run(v.mill.kv.get("a", { timeout: 5 }))).rejects.toThrow(coded("wait-timeout"));
    await expect(v.run(v.mill.jobs.revoke("a", { timeout: 5 }))).rejects.toThrow(coded("outcome-unknown"));
  });

  test("may be a signal of the caller, before and during the call", async () => {
    const early = await refusalOf(v.mill.enqueue(plain, { n: 1 }, {}, { signal: AbortSignal.abort("no") }));
    expect(early).toMatchObject({ code: "aborted", outcome: "did-not-happen", cause: "no" });
    expect(await v.run(v.mill.jobs.counts())).toEqual({});
    v.store.submit = never;
    const stop = new AbortController();
    const waiting = v.mill.enqueue(plain, { n: 1 }, {}, { signal: stop.signal });
    stop.abort();
    expect(await refusalOf(waiting)).toMatchObject({
      code: "aborted",
      outcome: "unknown",
      ids: [expect.any(String)],
    });
  });

  test("stops an action on many jobs at its next page", async () => {
    await v.run(v.mill.enqueueMany(Array.from({ length: 600 }, (_, n) => plain.with({ n }))));
    const stop = new AbortController();
    const changeIf = v.store.changeIf.bind(v.store);
    v.store.changeIf = async (changes) => {
      stop.abort();
      return changeIf(changes);
    };
    const { code } = await refusalOf(v.mill.jobs.delete({ queue: "default" }, { signal: stop.signal }));
    expect(code).toBe("aborted");
    await v.advance(1000);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 100 } });
  });

  test("must be a duration and a signal", async () => {
    for (const [limit, code] of [
      [{ timeout: "soon" as never }, "invalid-duration"],
      [{ signal: {} as never }, "invalid-option"],
    ] as const)
      await expect(v.run(v.mill.enqueue(plain, { n: 1 }, {}, limit))).rejects.toThrow(coded(code));
  });
});

test("a failed action on many jobs rejects for its caller only, also while the next page is read", async () => {
  await v.run(v.mill.enqueueMany(Array.from({ length: 600 }, (_, n) => plain.with({ n }))));
  v.store.changeIf = () => Promise.reject(new MillraceError("store-denied", "no"));
  await expect(v.run(v.mill.jobs.cancel({ queue: "default" }))).rejects.toThrow(coded("store-denied"));
});
