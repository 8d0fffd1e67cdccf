/**
 * Workers with capabilities on real stores, real time and connections of their own: jobs go only to who can run them,
 * and a hint brings a combination that nobody asked for before to the one able worker at once.
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { handler, job } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { hangMs } from "../support/hang-ms.ts";

const places = usePlaces();
const render = job<number, string>("render");

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();

  test("a job goes to a worker that offers all that it requires, and to no other", async () => {
    const open = place();
    const mill = async (): Promise<Millrace> => closeLater(millOn(await open()));
    const producer = await mill();
    const serve = async (who: string, capabilities: readonly string[]): Promise<void> => {
      await (await mill()).work([handler(render, async () => who)], { capabilities, concurrency: 2 });
    };
    await serve("plain", []);
    await serve("gpu", ["gpu"]);
    await serve("both", ["eu", "gpu", "ssd"]);
    const run = async (requires: readonly string[]): Promise<string> =>
      (await producer.enqueue(render, 1, { requires })).result({ timeout: hangMs });
    for (let round = 0; round < 5; round++) {
      const [none, gpu, both, three] = await Promise.all(
        [[], ["gpu"], ["eu", "gpu"], ["ssd", "gpu", "eu"]].map((requires) => run(requires)),
      );
      expect(["plain", "gpu", "both"]).toContain(none);
      expect(["gpu", "both"]).toContain(gpu);
      expect([both, three]).toEqual(["both", "both"]);
    }
    const held = await producer.enqueue(render, 1, { requires: ["tpu"] });
    expect(await producer.explain(held.id)).toMatchObject({
      state: "ready",
      held: { by: "capability", missing: ["tpu"] },
    });
    await serve("tpu", ["tpu"]);
    expect(await held.result({ timeout: hangMs })).toBe("tpu");
  });
});
