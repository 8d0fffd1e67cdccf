// With encryption the headers of a job are sealed as its input is: no store sees them, all who may read open them.
import { expect, test } from "vitest";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { millOn } from "../../../test/support/mill-on.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { topic } from "../../engine/topics/topic-definition.ts";
import { handler } from "../../worker/handler.ts";

const keys = { k1: "11".repeat(32), k2: "22".repeat(32) };
const send = job<null>("send");
const headers = { tenant: "hush-hush" };

async function open() {
  return openVirtualMill({ encryption: { current: "k1", keys } });
}

test("headers of an enqueue, of an edit and of a publication are sealed in the store and open to handlers and views", async () => {
  const v = await open();
  const told = topic<null>("told");
  await v.run(v.mill.topics.subscribe(told, send));
  const enqueued = await v.run(v.mill.enqueue(send, null, { headers, delay: "1s" }));
  const edited = await v.run(v.mill.enqueue(send, null, { headers: { tenant: "first" }, delay: "1s" }));
  await v.run(v.mill.jobs.edit(edited.id, { headers }));
  await v.run(v.mill.publish(told, null, { headers }));
  const { jobs } = await v.run(v.store.findJobs({ filter: {}, max: 10, scanMax: 100, cursor: null }));
  expect(jobs).toHaveLength(3);
  for (const { meta } of jobs) expect(meta).toMatch(/"headers":"!k1:/);
  expect(JSON.stringify(jobs)).not.toMatch(/hush|tenant|first/);
  expect(await v.run(v.mill.jobs.get(enqueued.id))).toMatchObject({ headers });
  // Another current key of the same ring opens them; a process without the key shows the rest of the job.
  const rotated = millOn(v.store, { encryption: { current: "k2", keys } }, v.platform);
  expect(await v.run(rotated.jobs.get(edited.id))).toMatchObject({ headers });
  const without = millOn(v.store, {}, v.platform);
  expect(await v.run(without.jobs.get(edited.id))).toMatchObject({ id: edited.id, headers: {} });
  const seen: unknown[] = [];
  await v.run(v.mill.work([handler(send, (context) => void seen.push(context.headers))]));
  await v.advance(5000);
  expect(seen).toEqual([headers, headers, headers]);
  await v.run(rotated.close());
  await v.run(without.close());
  await v.close();
});

test("a schedule with sealed headers that is defined again is the same schedule", async () => {
  const v = await open();
  const define = () => v.mill.schedule("daily", send, null, { every: "1h", headers });
  await v.run(define());
  const before = await v.run(v.store.readDocs({ kind: "schedule", prefix: "", after: null, max: 10 }));
  await v.run(define());
  const after = await v.run(v.store.readDocs({ kind: "schedule", prefix: "", after: null, max: 10 }));
  expect(before.docs).toHaveLength(1);
  expect(JSON.stringify(before.docs)).not.toContain("hush");
  expect(after.docs.map(({ version }) => version)).toEqual(before.docs.map(({ version }) => version));
  await v.close();
});

test("without encryption headers are kept as they are", async () => {
  const v = await openVirtualMill();
  const { id } = await v.run(v.mill.enqueue(send, null, { headers }));
  const [record] = await v.run(v.store.readJobs([id]));
  expect(record?.meta).toBe(JSON.stringify({ headers }));
  await v.close();
});
