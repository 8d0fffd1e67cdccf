// A run that ends badly undoes its recorded steps in reverse order, each once, whichever append its process dies at.
import { expect, test } from "vitest";
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
