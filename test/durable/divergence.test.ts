// Code that does not match the journal of its run: the first difference is named, and nothing of the new code runs.
import { describe, expect, test } from "vitest";
import { differenceText } from "../../src/model/durable/journal-cursor.ts";
import { journalLimits } from "../../src/model/durable/journal-entry.ts";
import { SoloRun } from "./solo-run.ts";
import type { SoloHandler, SoloOptions } from "./solo-run.ts";

const recorded: SoloHandler = async (step) => {
  await step.run("reserve", () => 1);
  await step.run("charge", () => 2);
  await step.waitFor("paid");
};

async function continuedBy(handle: SoloHandler, options: SoloOptions = {}): Promise<string> {
  const solo = new SoloRun();
  expect(await solo.stay(recorded)).toEqual({ kind: "suspended" });
  solo.run.arrive("signal:1", { kind: "signal", name: "paid", value: "1" });
  const end = await solo.stay(handle, { unaskedMs: 50, ...options });
  if (end === null || !("difference" in end)) return end?.kind ?? "dead";
  return `${end.kind}: ${differenceText(end.difference)}`;
}

const ran: string[] = [];
const runs = (name: string) => (): number => ran.push(name);

describe("a run whose code", () => {
  test("is the same goes on", async () => {
    expect(await continuedBy(recorded)).toBe("returned");
  });

  test("has a step more at its end goes on", async () => {
    expect(
      await continuedBy(async (step) => {
        await recorded(step);
        await step.run("ship", () => 3);
      }),
    ).toBe("returned");
  });

  test.each<[title: string, handle: SoloHandler, sentence: RegExp]>([
    [
      "lost a step",
      async (step) => {
        await step.run("reserve", runs("reserve"));
        await step.waitFor("paid");
      },
      /^unasked: .*entry 3 is step.run "charge#1", and the handler asks for step.waitFor "\?paid#1"/,
    ],
    [
      "has two steps in another order",
      async (step) => {
        await step.run("charge", runs("charge"));
        await step.run("reserve", runs("reserve"));
        await step.waitFor("paid");
      },
      /^unasked: .*entry 2 is step.run "reserve#1", and the handler asks for step.run "charge#1"/,
    ],
    [
      "has a step of another kind",
      async (step) => {
        await step.run("reserve", runs("reserve"));
        await step.sleep("charge", "1m");
        await step.waitFor("paid");
      },
      /^diverged: .*entry 3 is step.run "charge#1", and the handler asks for step.sleep "charge#1"/,
    ],
    [
      "has a new step between two",
      async (step) => {
        await step.run("reserve", runs("reserve"));
        await step.run("vat", runs("vat"));
        await step.run("charge", runs("charge"));
        await step.waitFor("paid");
      },
      /^unasked: .*entry 3 is step.run "charge#1", and the handler asks for step.run "vat#1"/,
    ],
    [
      "ends early",
      async (step) => {
        await step.run("reserve", runs("reserve"));
      },
      /^diverged: .*entry 3 is step.run "charge#1", and the handler asks for nothing more/,
    ],
  ])("%s diverges", async (_title, handle, sentence) => {
    expect(await continuedBy(handle)).toMatch(sentence);
    expect(await continuedBy(handle, { isDry: true })).toMatch(sentence);
    expect(ran).toEqual([]);
  });

  test("can go on is told by a dry run, which runs and writes nothing", async () => {
    const solo = new SoloRun();
    await solo.stay(recorded);
    const before = solo.run.last;
    const more: SoloHandler = async (step) => {
      await recorded(step);
      await step.run("ship", runs("ship"));
    };
    expect(await solo.stay(more, { isDry: true })).toEqual({ kind: "continues" });
    expect(ran).toEqual([]);
    expect(solo.run.last).toBe(before);
  });
});

describe("patched", () => {
  const patchedCode: SoloHandler = async (step) => {
    await step.run("reserve", () => 1);
    const isNew = step.patched("vat");
    if (isNew) await step.run("vat", () => "vat");
    await step.run("charge", () => 2);
    await step.waitFor("paid");
    return isNew;
  };

  test("is false for a run that has taken the old way, and true for a new one, in all its lives", async () => {
    const old = new SoloRun();
    await old.stay(recorded);
    old.run.arrive("signal:1", { kind: "signal", name: "paid", value: "1" });
    expect(await old.stay(patchedCode)).toEqual({ kind: "returned", value: false });
    const fresh = new SoloRun();
    await fresh.stay(patchedCode);
    fresh.run.arrive("signal:1", { kind: "signal", name: "paid", value: "1" });
    expect(await fresh.stay(patchedCode)).toEqual({ kind: "returned", value: true });
  });

  test("stays what it was if only others have written after it", async () => {
    const solo = new SoloRun();
    // The process dies before the step after the patch, and its answer, are recorded.
    const dies = (when: string, call: number): boolean => when === "before" && call === 1;
    expect(await solo.stay(patchedCode, { dies })).toBeNull();
    solo.run.arrive("signal:1", { kind: "signal", name: "paid", value: "1" });
    expect(await solo.stay(patchedCode)).toEqual({ kind: "returned", value: true });
  });
});

describe("a step that comes too late", () => {
  async function lateAfter(handle: SoloHandler): Promise<Promise<unknown>> {
    const solo = new SoloRun();
    let kept: Parameters<SoloHandler>[0] | null = null;
    await solo.stay(async (step) => {
      kept = step;
      return handle(step);
    });
    const late = (kept as Parameters<SoloHandler>[0] | null)?.run("late", runs("late")) ?? Promise.resolve();
    // Not awaited here: it may never answer.
    return Promise.race([late, new Promise((resolve) => setImmediate(() => resolve("no answer")))]);
  }

  test("is refused once the handler has ended", async () => {
    await expect(lateAfter(async () => 1)).rejects.toThrow(/came after the handler had ended/);
    expect(ran).toEqual([]);
  });

  test("gets no answer in a frame that was abandoned by a suspend", async () => {
    expect(await lateAfter((step) => step.waitFor("paid"))).toBe("no answer");
    expect(ran).toEqual([]);
  });
});

describe("a journal", () => {
  test("that is full ends the run", async () => {
    const solo = new SoloRun();
    const end = await solo.stay(async (step) => {
      for (let at = 0; at <= journalLimits.entriesMax; at++) await step.run("step", () => at);
    });
    expect(end).toEqual({ kind: "journal-full" });
    expect(solo.run.last).toBe(journalLimits.entriesMax);
  });

  test("begins anew with continueWith, but not if the code has differed", async () => {
    const handle: SoloHandler = async (step) => {
      await step.run("reserve", () => 1);
      return step.continueWith({ page: 2 });
    };
    expect(await new SoloRun().stay(handle)).toEqual({ kind: "continued", input: '{"page":2}' });
    expect(await continuedBy(handle)).toMatch(/^diverged: .*entry 3 is step.run "charge#1"/);
  });

  test("keeps a step that gave back what cannot be encoded as failed for good, and does not run it again", async () => {
    let count = 0;
    const end = await new SoloRun().stay(async (step) =>
      step.run("cycle", () => {
        count += 1;
        const value: { own?: unknown } = {};
        value.own = value;
        return value;
      }),
    );
    expect(end).toMatchObject({ kind: "threw", error: { name: "StepFailed" } });
    expect(count).toBe(1);
  });
});
