import { expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { openVirtualMill } from "../../../test/support/virtual-mill.ts";
import type { Store } from "../../store/store.ts";

test("what is kept for days is looked at ten times more rarely than what leaves soon; an operator's run looks at all", async () => {
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
  mill.startDuties();
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
  const { outcomes } = await v.run(mill.runDuty("retention"));
  expect(Object.keys(outcomes)).toHaveLength(8);
  expect(Object.values(looks)).toEqual(Array.from({ length: 8 }, () => 1));
  await v.run(mill.close());
  await v.close();
});
