/** Events on real stores: pushed to another process, without a gap or a double over a restart of the listener. */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { handler, job } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";

const places = usePlaces();
const mail = job<number>("mail");

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();

  test("a listener in another process gets every event of each job in order, over its own restart too", async () => {
    const open = place();
    const mill = async (): Promise<Millrace> => closeLater(millOn(await open()));
    const [busy, listener, next] = await Promise.all([mill(), mill(), mill()]);
    const count = 60;
    const lives = new Map<string, string[]>();
    let ended = 0;
    // Of two connections neither is the first: "now" of one may lie behind what the other has done since.
    let cursor = "start";
    const listen = async (on: Millrace, until: number): Promise<void> => {
      for await (const event of on.events({ from: cursor })) {
        cursor = event.cursor;
        if (event.jobId === null) continue;
        lives.set(event.jobId, [...(lives.get(event.jobId) ?? []), event.kind]);
        if (event.kind === "completed") expect(event.ranMs).toBeGreaterThanOrEqual(0);
        if (event.kind === "completed" && ++ended === until) return;
      }
    };
    // Leaving the loop somewhere inside what one call emitted.
    const half = listen(listener, count / 2);
    const handles = await busy.enqueueMany(Array.from({ length: count }, (_, n) => mail.with(n)));
    await busy.work([handler(mail, async () => undefined)]);
    await half;
    await listen(next, count);
    expect([...lives.keys()].sort()).toEqual(handles.map(({ id }) => id).sort());
    expect(new Set([...lives.values()].map((kinds) => kinds.join(" ")))).toEqual(
      new Set(["submitted claimed started completed"]),
    );
  });
});
