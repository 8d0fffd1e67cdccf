// A worker that is told to serve a queue whose name is probably misspelt says so.
import { expect, test } from "vitest";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../handler.ts";

test("a queue that no handler declares and no job was ever in is warned about, once per worker", async () => {
  const warned: unknown[] = [];
  const log = {
    debug() {},
    info() {},
    warn: (message: string, fields?: unknown) => void warned.push([message, fields]),
    error() {},
  };
  const v = await openVirtualMill({ log });
  const send = job("send", { queue: "email" });
  const other = job("other", { queue: "reports" });
  await v.run(v.mill.enqueue(other, undefined));
  const works = [handler(send, () => 1)];
  await v.run(v.mill.work(works));
  await v.run(v.mill.work(works, { queues: ["email", "reports"] }));
  await v.advance(1000);
  expect(warned).toEqual([]);
  await v.run(v.mill.work(works, { queues: { email: 1, emial: 1 } }));
  await v.advance(1000);
  expect(warned).toEqual([
    [
      expect.stringMatching(/no handler declares and no job was ever in/),
      { queue: "emial", declared: ["email"] },
    ],
  ]);
  await v.close();
});
