import { isMillraceError } from "../../model/error.ts";
import type { Duration } from "../../model/duration.ts";
import { expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { Store } from "../../store/store.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";

test("jobs that are kept for days are checked ten times more rarely; an operator's run checks all", async () => {
  const v = await openVirtualMill({ duties: false });
  let looks: Record<string, number> = {};
  const store: Store = {
    ...v.store,
    prune: (request) => {
      const kind = request.what === "history" ? `${request.outcome} jobs` : request.what;
      looks[kind] = (looks[kind] ?? 0) + 1;
      return v.store.prune(request);
    },
    close: async () => {},
  };
  const mill = millOn(store, { retention: { completed: "1h" } }, v.platform);
  mill.duties.start();
  await v.advance(3_600_000);
  const [often, rarely] = [looks["completed jobs"] ?? 0, looks["failed jobs"] ?? 0];
  expect(often).toBeGreaterThanOrEqual(60);
  expect(rarely).toBeGreaterThanOrEqual(Math.floor(often / 10));
  expect(rarely).toBeLessThanOrEqual(Math.ceil(often / 10));
  expect(looks).toEqual({
    ...{ "completed jobs": often, kept: often },
    ...{ "failed jobs": rarely, "cancelled jobs": rarely, "expired jobs": rarely, "skipped jobs": rarely },
    ...{ expired: rarely, feed: rarely },
  });
  looks = {};
  const { outcomes } = await v.run(mill.duties.run("retention"));
  expect(Object.keys(outcomes)).toHaveLength(8);
  expect(Object.values(looks)).toEqual(Array.from({ length: 8 }, () => 1));
  await v.run(mill.close());
  await v.close();
});

test("one process of a store prunes, and another goes on when it is gone", async () => {
  const v = await openVirtualMill({ duties: false });
  const prunes: string[] = [];
  const open = (name: string): Millrace => {
    const prune: Store["prune"] = (request) => {
      prunes.push(name);
      return v.store.prune(request);
    };
    const mill = millOn({ ...v.store, prune, close: async () => {} }, {}, v.platform);
    mill.duties.start();
    return mill;
  };
  const one = open("one");
  await v.advance(1000);
  const other = open("other");
  await v.advance(600_000);
  expect(new Set(prunes)).toEqual(new Set(["one"]));
  await v.run(one.close());
  prunes.length = 0;
  await v.advance(130_000);
  expect(new Set(prunes)).toEqual(new Set(["other"]));
  await v.run(other.close());
  await v.close();
});

test("a result with a retention of its own is pruned within a minute of it, and its job stays", async () => {
  const v = await openVirtualMill({ defaults: { keepResult: "1h" } });
  const answer = job<null, number>("answer");
  await v.run(v.mill.work([handler(answer, async () => 42)]));
  const [plain, short, long] = await v.run(
    v.mill.enqueueMany([
      answer.with(null),
      answer.with(null, { keepResult: "10m" }),
      answer.with(null, { keepResult: true }),
    ]),
  );
  const expired = (error: unknown): string =>
    isMillraceError(error, "result-expired") ? error.code : "other";
  const results = (): Promise<readonly (number | string)[]> =>
    v.run(Promise.all([plain, short, long].map((handle) => handle.result().catch(expired))));
  expect(await results()).toEqual([42, 42, 42]);
  await v.advance(11 * 60_000);
  expect(await results()).toEqual([42, "result-expired", 42]);
  await v.advance(50 * 60_000);
  expect(await results()).toEqual(["result-expired", "result-expired", 42]);
  await v.close();
});

test.each(["soon", -1, null])("a time %j for a result is refused", async (keepResult) => {
  const v = await openVirtualMill();
  const refused = v.mill.enqueue(job("any"), {}, { keepResult: keepResult as Duration });
  await expect(v.run(refused)).rejects.toMatchObject({ code: "invalid-duration" });
  await v.close();
});
