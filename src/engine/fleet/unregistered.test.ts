// A worker whose registration cannot be written works all the same, and says that others do not see it.
import { expect, test } from "vitest";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { handler } from "../../worker/handler.ts";
import { silentLogger } from "../log/logger.ts";
import { job } from "../submit/job-definition.ts";

test("a worker whose registration the store refuses warns once, works on, and says when it is over", async () => {
  const lines: string[] = [];
  const say = (line: string): void => void lines.push(line);
  const v = await openVirtualMill({ log: { ...silentLogger, warn: say, info: say } });
  const plain = job<null>("plain");
  await v.run(v.mill.work([handler(plain, () => undefined)]));
  await v.advance(2000);
  lines.length = 0;
  const heartbeat = v.store.heartbeat.bind(v.store);
  v.store.heartbeat = () => Promise.reject(new Error("the registry is read-only"));
  await v.advance(20_000);
  await v.run((await v.run(v.mill.enqueue(plain, null))).result());
  const said = /cannot be registered/;
  expect(lines.filter((line) => said.test(line))).toHaveLength(1);
  v.store.heartbeat = heartbeat;
  await v.advance(60_000);
  expect(lines.filter((line) => said.test(line)).at(-1)).toMatch(/^over: /);
  await v.close();
});
