// A run that ends badly undoes its recorded steps in reverse order, each once, whichever append its process dies at.
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { MillraceError } from "../../src/model/error.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { SoloRun } from "./solo-run.ts";
import type { SoloHandler, SoloOptions } from "./solo-run.ts";

const failed = { state: "failed", reason: "unrecoverable" } as const;

function bookings(): { readonly handle: SoloHandler; readonly undone: string[]; readonly booked: string[] } {
  const undone: string[] = [];
  const booked: string[] = [];
  const book = (step: Parameters<SoloHandler>[0], name: string): Promise<string> =>
    step.run(
      name,
      () => {
        booked.push(name);
        return `${name} ${booked.length}`;
      },
      { undo: (value) => undone.push(value) },
    );
  return {
    ...{ undone, booked },
    handle: async (step) => {
      await book(step, "flight");
      await Promise.all([book(step, "hotel"), book(step, "car")]);
      await step.run("no undo", () => 1);
      throw new Error("declined");
    },
  };
}

async function finish(solo: SoloRun, handle: SoloHandler, dies: SoloOptions["dies"]): Promise<unknown> {
  let end = await solo.stay(handle, { judge: () => failed, ...(dies === undefined ? {} : { dies }) });
  for (let tries = 0; end === null && tries < 5; tries++) {
    solo.run.reclaim(solo.run.fence);
    end = await solo.stay(handle, { judge: () => failed });
  }
  return end;
}

test("without a crash", async () => {
  const solo = new SoloRun();
  const { handle, undone } = bookings();
  expect(await finish(solo, handle, undefined)).toMatchObject({ kind: "ended", ending: failed });
  expect(undone.map((each) => each.split(" ")[0])).toEqual(["car", "hotel", "flight"]);
});

test("with a crash before and after every append: every undo is recorded once, in reverse order", async () => {
  for (let call = 0; call < 12; call++)
    for (const moment of ["before", "after"] as const) {
      const solo = new SoloRun();
      const { handle } = bookings();
      const end = await finish(solo, handle, (when, at) => when === moment && at === call);
      expect(end).toMatchObject({ kind: "ended", ending: failed });
      const results = solo.run.entries.flatMap(({ body }) =>
        body.kind === "result" && body.hasUndo === true ? [body.call] : [],
      );
      const undos = solo.run.entries.flatMap(({ body }) => (body.kind === "undone" ? [body.call] : []));
      expect(undos).toEqual(results.toReversed());
      expect(solo.kinds.filter((kind) => kind === "ending")).toHaveLength(1);
    }
});

test("a cancel that somebody else wrote into the journal is undone as well, while a step runs and while it waits", async () => {
  for (const isWaiting of [true, false]) {
    const solo = new SoloRun();
    const undone: string[] = [];
    const handle: SoloHandler = async (step) => {
      await step.run("flight", () => "f1", { undo: (value) => undone.push(value) });
      if (isWaiting) await step.waitFor("paid");
      else await step.run("long", () => new Promise(() => undefined));
    };
    const cancels = { kind: "ending", state: "cancelled", reason: "asked" } as const;
    const first = solo.stay(handle);
    if (isWaiting) {
      expect(await first).toEqual({ kind: "suspended" });
      solo.run.arrive("ending", cancels);
      expect(await solo.stay(handle)).toMatchObject({ kind: "ended", ending: { state: "cancelled" } });
    } else {
      await expect.poll(() => solo.kinds).toContain("result");
      solo.run.arrive("ending", cancels);
      solo.execution?.heard(solo.run.last);
      expect(await first).toMatchObject({ kind: "ended", ending: { state: "cancelled" } });
    }
    expect(undone).toEqual(["f1"]);
  }
});

test("an undo that fails for good ends the run as undo-failed, after the other undos", async () => {
  const solo = new SoloRun();
  const undone: string[] = [];
  const end = await solo.stay(
    async (step) => {
      await step.run("one", () => 1, { undo: () => undone.push("one") });
      await step.run("two", () => 2, {
        undo: () => {
          throw new Error("no");
        },
      });
      throw new Error("declined");
    },
    { judge: () => failed },
  );
  expect(end).toMatchObject({ kind: "ended", ending: { state: "failed", reason: "undo-failed" } });
  expect(undone).toEqual(["one"]);
});

/** A handler that throws while the record of its booking is on its way. */
function throwsWhileRecording(begun: Promise<void>): {
  readonly handle: SoloHandler;
  readonly undone: string[];
} {
  const undone: string[] = [];
  return {
    undone,
    handle: async (step) => {
      void step.run("flight", () => "f1", { undo: (value) => undone.push(value) });
      await begun;
      throw new Error("declined");
    },
  };
}

test("a run whose lease is lost while the end waits for a record does nothing more", async () => {
  const solo = new SoloRun();
  const begun = Promise.withResolvers<void>();
  const { handle, undone } = throwsWhileRecording(begun.promise);
  let turns = 0;
  const defer = (run: () => void): void => {
    turns += 1;
    nodePlatform.defer(run);
  };
  const end = solo.stay(handle, {
    judge: () => (solo.execution?.hasUndo === true ? failed : "retry"),
    platform: { ...nodePlatform, defer },
    answers: () => {
      begun.resolve();
      return new Promise(() => undefined);
    },
  });
  await begun.promise;
  for (let each = 0; each < 5; each++) await turn();
  const before = turns;
  for (let each = 0; each < 20; each++) await turn();
  expect(turns).toBe(before);
  solo.execution?.abandon();
  expect(await end).toEqual({ kind: "lost" });
  for (let each = 0; each < 20; each++) await turn();
  expect(turns).toBe(before);
  expect(undone).toEqual([]);
});

test("a booking is undone whose record was written, but answered only when it was repeated", async () => {
  const solo = new SoloRun();
  const begun = Promise.withResolvers<void>();
  const { handle, undone } = throwsWhileRecording(begun.promise);
  let calls = 0;
  const end = await solo.stay(handle, {
    judge: () => (solo.execution?.hasUndo === true ? failed : "retry"),
    answers: async (kind) => {
      begun.resolve();
      if (kind === "append" && calls++ === 0)
        throw new MillraceError("outcome-unknown", "The reply was lost.");
      for (let each = 0; each < 10; each++) await turn();
    },
  });
  expect(end).toMatchObject({ kind: "ended", ending: failed });
  expect(undone).toEqual(["f1"]);
});

test("a step whose record is on its way has an undo that continueWith must not forget", async () => {
  const solo = new SoloRun();
  const begun = Promise.withResolvers<void>();
  const end = await solo.stay(
    async (step) => {
      void step.run("flight", () => "f1", { undo: () => undefined });
      await begun.promise;
      return step.continueWith({});
    },
    {
      answers: async () => {
        begun.resolve();
        await turn();
      },
    },
  );
  expect(end).toMatchObject({ kind: "threw", error: { code: "undos-open" } });
});
