import { expect, test } from "vitest";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { Store } from "../../store/store.ts";
import { job } from "../submit/job-definition.ts";
import { millOn } from "../../../test/support/mill-on.ts";

test("one process of a store audits, another takes over when it is gone, and an operator's request is always served", async () => {
  const v = await openVirtualMill({ duties: false });
  await v.run(v.mill.enqueueMany(Array.from({ length: 1200 }, () => job("a").with({}))));
  const walks: Record<string, number> = {};
  const openProcess = (name: string): Millrace => {
    const store: Store = {
      ...v.store,
      auditIndexes: (request) => {
        walks[name] = (walks[name] ?? 0) + (request.cursor === null ? 1 : 0);
        return v.store.auditIndexes(request);
      },
      close: async () => {},
    };
    const mill = millOn(store, {}, v.platform);
    mill.duties.start();
    return mill;
  };
  const one = openProcess("one");
  await v.advance(100);
  const two = openProcess("two");
  await v.advance(3_600_000);
  expect(walks).toEqual({ one: expect.any(Number) });
  expect(walks["one"]).toBeGreaterThanOrEqual(5);
  expect(walks["one"]).toBeLessThanOrEqual(8);
  expect(await v.run(two.duties.run("index-audit"))).toMatchObject({
    processed: expect.any(Number),
    errors: 0,
  });
  expect(walks["two"]).toBe(1);
  await v.run(one.close());
  await v.advance(1_300_000);
  expect(walks["two"]).toBeGreaterThanOrEqual(2);
  await v.run(two.close());
  await v.close();
});
