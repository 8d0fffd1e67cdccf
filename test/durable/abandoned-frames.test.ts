// A suspended run leaves nothing in the process: its handler's frames are not unwound and are collected.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { settleTurn } from "../../src/testing/virtual-time.ts";
import { SoloRun } from "./solo-run.ts";
import type { SoloHandler } from "./solo-run.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const runs = 1000;

async function collectedOf(handlerOf: (held: object, seen: { finallys: number }) => SoloHandler): Promise<{
  collected: number;
  finallys: number;
}> {
  const seen = { finallys: 0 };
  let collected = 0;
  const registry = new FinalizationRegistry(() => (collected += 1));
  const stay = async (): Promise<void> => {
    const held = { frame: new Uint8Array(1000) };
    registry.register(held, null);
    expect(await new SoloRun().stay(handlerOf(held, seen))).toEqual({ kind: "suspended" });
  };
  for (let count = 0; count < runs; count++) await stay();
  for (let turn = 0; turn < 100 && collected < runs; turn++) {
    collectGarbage();
    await settleTurn();
  }
  return { collected, finallys: seen.finallys };
}

test("the frames of 1,000 suspended runs are collected, and no finally of theirs runs", async () => {
  const { collected, finallys } = await collectedOf((held, seen) => async (step) => {
    try {
      await step.run("first", () => 1);
      await step.waitFor("paid", { timeout: "2d" });
      return held;
    } finally {
      seen.finallys += 1;
    }
  });
  expect({ collected, finallys }).toEqual({ collected: runs, finallys: 0 });
});

test("also those of parallel branches, races and lists, whose scopes follow their code", async () => {
  const { collected, finallys } = await collectedOf((held, seen) => async (step) => {
    try {
      const waits = step.each(
        "item",
        ["a", "b"],
        (item) => item,
        async (_item, own) => {
          await own.run("first", () => 1);
          await own.waitFor("paid");
        },
      );
      await Promise.all([
        waits,
        step.race({ paid: () => step.waitFor("paid"), late: () => step.sleep("late", "7d") }),
      ]);
      return held;
    } finally {
      seen.finallys += 1;
    }
  });
  expect({ collected, finallys }).toEqual({ collected: runs, finallys: 0 });
});
