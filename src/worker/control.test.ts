import { expect, test } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import * as api from "../index.ts";
import { job } from "../engine/submit/job-definition.ts";
import { isMillraceError, MillraceError } from "../model/error.ts";
import * as control from "./control.ts";
import { handler } from "./handler.ts";

const v = useVirtualMill();
const plain = job<string>("plain", { retry: { attempts: 3, backoff: "1s" } });

test("control outcomes are Errors, and one of another copy of the package means the same", async () => {
  // A query makes another instance of the module, as a second copy of the package in one process would be.
  const copy = (await import(/* @vite-ignore */ `./control.ts?${"copy"}`)) as typeof control;
  expect(copy.Snooze).not.toBe(control.Snooze);
  const outcomes: Record<string, Error> = {
    unrecoverable: new copy.Unrecoverable("no use"),
    snooze: new copy.Snooze("10m"),
    cancel: new copy.Cancel("not wanted"),
    "retry-after": new copy.RetryAfter("5m"),
  };
  expect(Object.values(outcomes).every((each) => each instanceof Error)).toBe(true);
  await v.run(
    v.mill.work([
      handler(plain, ({ input }) => {
        throw outcomes[input]!;
      }),
    ]),
  );
  const handles = await v.run(v.mill.enqueueMany(Object.keys(outcomes).map((kind) => plain.with(kind))));
  await v.advance(1000);
  const views = await v.run(Promise.all(handles.map(({ id }) => v.mill.jobs.get(id))));
  const inMs = (at: Date | undefined): number => Number(at) - v.platform.time.now;
  expect(views).toMatchObject([
    { state: "failed", reason: "unrecoverable", attempt: 1 },
    { state: "scheduled", failures: [] },
    { state: "cancelled", reason: "not wanted" },
    { state: "scheduled", failures: [{ error: { name: "RetryAfter" } }] },
  ]);
  expect(inMs(views[1]?.dueAt)).toBeGreaterThan(9 * 60_000);
  expect(inMs(views[3]?.dueAt)).toBeGreaterThan(4 * 60_000);
});

test("an error of another copy of the package is known as one", async () => {
  const copy = (await import(/* @vite-ignore */ `../model/error.ts?${"copy"}`)) as {
    MillraceError: typeof MillraceError;
  };
  const error: unknown = new copy.MillraceError("store-busy", "busy");
  expect(error).not.toBeInstanceOf(MillraceError);
  expect([
    isMillraceError(error),
    isMillraceError(error, "store-busy"),
    isMillraceError(error, "closed"),
  ]).toEqual([true, true, false]);
});

test("a thrown value that throws when it is looked at fails its attempt and nothing else", async () => {
  const trap = (): never => {
    throw new Error("do not touch");
  };
  const hostile = new Proxy({}, { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap });
  await v.run(
    v.mill.work([
      handler(plain, () => {
        throw hostile;
      }),
    ]),
  );
  const handle = await v.run(v.mill.enqueue(plain, "x", { retry: { attempts: 1 } }));
  await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
  expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ reason: "retries-exhausted" });
});

test("what does not act is not exported", () => {
  expect(Object.keys(api)).not.toEqual(expect.arrayContaining(["Suspend"]));
});
