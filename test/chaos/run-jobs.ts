/** The durable job of the test of killed runs, for its processes and for the test itself. */
import { z } from "zod";
import { job } from "../../src/index.ts";

export const order = job("order", {
  input: z.object({ n: z.number() }),
  signals: { go: z.string(), manager: z.object({ ok: z.boolean() }) },
  durable: { version: 1 },
  retry: { attempts: 100, backoff: { kind: "fixed", delay: 10, jitter: "none" } },
});
