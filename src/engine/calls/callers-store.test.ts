import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { failingPart } from "../../../test/support/stores/failing-part.ts";
import { MillraceError } from "../../model/error.ts";
import { callersStore } from "./callers-store.ts";

const lost = new MillraceError("outcome-unknown", "The reply was lost.");
const away = new MillraceError("store-unavailable", "The store is away.");

describe("the store of callers", () => {
  const v = useVirtualMill();

  const open = () => {
    const part = failingPart(v.store);
    const store = callersStore(part, { platform: v.platform, giveUpMs: 3000 });
    return { part, store };
  };
  const put = { kind: "thing", id: "one", body: "1", guard: "absent" as const };

  test("a read outlives a blip", async () => {
    const { part, store } = open();
    part.fails = away;
    v.platform.setTimer(500, () => (part.fails = null));
    expect((await v.run(store.readDocs({ kind: "thing", ids: ["one"] }))).docs).toEqual([]);
  });

  test("a call ends after giveUp, from a store that is away and from one that is silent", async () => {
    for (const fall of ["away", "silent"]) {
      const { part, store } = open();
      if (fall === "away") part.fails = away;
      else part.fallSilent();
      const from = v.platform.time.now;
      const read = store.readDocs({ kind: "thing", ids: ["one"] });
      await expect(v.run(read)).rejects.toMatchObject({
        code: "store-unavailable",
        outcome: "did-not-happen",
      });
      expect(v.platform.time.now - from).toBe(3000);
      const write = store.putDocs([{ ...put, id: fall }]);
      await expect(v.run(write)).rejects.toMatchObject({
        outcome: fall === "away" ? "did-not-happen" : "unknown",
      });
      expect(v.platform.time.now - from).toBe(6000);
      part.speak();
    }
  });

  test("a put whose reply was lost is answered by what stands there", async () => {
    const { part, store } = open();
    part.fails = lost;
    part.failing = ["putDocs"];
    v.platform.setTimer(500, () => (part.fails = null));
    expect(await v.run(store.putDocs([put]))).toEqual([{ kind: "ok", version: 1 }]);
  });

  test("an entry of the KV with a version does not tell who wrote it, so its outcome is unknown", async () => {
    const { part, store } = open();
    part.fails = lost;
    part.failing = ["putDocs"];
    v.platform.setTimer(500, () => (part.fails = null));
    await expect(v.run(store.putDocs([{ ...put, kind: "kv" }]))).rejects.toMatchObject({
      code: "outcome-unknown",
    });
    const again = store.putDocs([{ ...put, kind: "kv", guard: "any" }]);
    expect(await v.run(again)).toMatchObject([{ kind: "ok" }]);
  });
});
