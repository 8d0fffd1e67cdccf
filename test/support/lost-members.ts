/** A flow, some of whose members become records that cannot be read: what must become of it, on any store. */
import { expect } from "vitest";
import { flow } from "../../src/engine/flows/flow.ts";
import type { Store } from "../../src/store/store.ts";
import { statesOf, step, Steps } from "./flow-steps.ts";
import { millOn } from "./mill-on.ts";
import { hangMs } from "./hang-ms.ts";

/** @param damage makes the record of this id one that cannot be read. */
export async function expectEndWithout(store: Store, damage: (id: string) => Promise<void>): Promise<void> {
  const mill = millOn(store);
  try {
    const given = flow("damaged", { failureMode: "collect" });
    const first = given.add("first", step, "1");
    given.add("behind", step, "2", { after: first });
    given.add("clean", step, "3", { afterFailureOf: first });
    given.add("ended", step, "4");
    given.group("group", [step.with("5"), step.with("6")], { tolerate: 1, after: "ended" });
    given.add("last", step, "7", { after: "group" });
    const run = await mill.submit(given);
    await damage(`${run.id}.first`);
    await damage(`${run.id}.group.1`);
    const worker = await new Steps().work(mill);
    await expect.poll(() => statesOf(run)).toMatchObject({ ended: "completed", "group.0": "completed" });
    // One that had ended does not end again.
    await damage(`${run.id}.ended`);
    // A walk that counts a flow whose members are just ending leaves it to the next one.
    const walkedTo = async (): Promise<Readonly<Record<string, string>>> => {
      for (let isOver = false; !isOver;) isOver = (await mill.duties.run("index-audit")).hasMore !== true;
      return statesOf(run);
    };
    await expect.poll(walkedTo, { interval: 200 }).toMatchObject({ first: "failed", last: "completed" });
    expect(await run.result({ timeout: hangMs })).toMatchObject({ last: "7" });
    expect(await statesOf(run)).toMatchObject({
      ...{ first: "failed", behind: "skipped", clean: "completed", last: "completed" },
      ...{ group: "completed", "group.1": "failed" },
    });
    const nodes = await run.nodes();
    expect(nodes.find(({ name }) => name === "first")?.reason).toBe("record-unreadable");
    expect(await run.counts()).toMatchObject({ total: 6, live: 0, completed: 4, failed: 1, skipped: 1 });
    await expect(run.retry({ nodes: "first" })).rejects.toMatchObject({ code: "invalid-option" });
    await worker.stop();
  } finally {
    await mill.close();
  }
}
