// The slots of a worker with sandboxed handlers, as others see them: each is counted once, in the queue of its jobs.
import { expect, onTestFinished, test } from "vitest";
import { handler, job, Millrace } from "millrace";
import { hangMs } from "../support/hang-ms.ts";
import { until } from "../support/until.ts";
import { everythingIn } from "./open-mill.ts";

test(
  "slots of sandboxed handlers are counted once",
  async () => {
    const mill = await Millrace.open("sqlite::memory:", { log: false });
    onTestFinished(async () => void (await mill.close()));
    const email = handler(job<number, number>("email", { queue: "email" }), () => 1);
    await mill.work([email, everythingIn("thread", { size: 3 })], { queues: { email: 5, default: 3 } });
    await until("the worker is registered", async () => (await mill.workers.list()).length === 1);
    const [worker] = await mill.workers.list();
    expect(worker?.slots).toEqual({ email: 5, default: 3 });
  },
  hangMs,
);
