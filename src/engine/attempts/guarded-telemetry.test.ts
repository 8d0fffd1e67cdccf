import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";
import type { Telemetry } from "./telemetry.ts";

const broken = (): never => {
  throw new Error("the bridge is broken");
};
const throwing: Telemetry = {
  ...{ submit: broken, followUp: broken, run: broken, step: broken, noted: broken, ended: broken },
};
const late: Telemetry = {
  ...throwing,
  submit: async (unit, send) => (await send(unit), broken()),
  run: (_attempts, _isBatch, call) => Promise.resolve(call()).then(broken),
};

describe.each([
  ["at once", throwing],
  ["after its call", late],
])("a telemetry bridge that throws %s", (_when, telemetry) => {
  const lines: string[] = [];
  const v = useVirtualMill({
    telemetry,
    log: { debug: () => {}, info: () => {}, warn: (line) => lines.push(line), error: () => {} },
  });

  test("hurts no enqueue, no handler and no settle, and is logged", async () => {
    const double = job<number, number>("double");
    const odd = job<null, null>("odd", { retry: { attempts: 1 } });
    let calls = 0;
    const ownError = new Error("the handler's own");
    await v.run(
      v.mill.work([
        handler(double, ({ input }) => ((calls += 1), input * 2)),
        handler(odd, () => {
          throw ownError;
        }),
      ]),
    );
    const handles = await Promise.all([1, 2, 3].map((n) => v.run(v.mill.enqueue(double, n))));
    expect(await Promise.all(handles.map((handle) => v.run(handle.result())))).toEqual([2, 4, 6]);
    expect(calls).toBe(3);
    const failed = await v.run(v.mill.enqueue(odd, null));
    await expect(v.run(failed.result())).rejects.toMatchObject({
      code: "job-failed",
      cause: { message: "the handler's own" },
    });
    expect(lines).toContain("the telemetry of this process throws");
  });
});
