/** The one call of the beat: what rides with the claim of a process, and what goes alone. */
import { beforeEach, describe, expect, test } from "vitest";
import { millOn } from "../../test/support/mill-on.ts";
import { useVirtualMill } from "../../test/support/use-virtual-mill.ts";
import { deferred } from "../../test/support/virtual-mill.ts";
import type { Millrace } from "../client/millrace.ts";
import { job } from "../engine/definition.ts";
import { workerKind } from "../engine/worker-notice.ts";
import type { ClaimRequest } from "../store/operations.ts";
import type { Store } from "../store/store.ts";
import { handler } from "./handler.ts";
import type { WorkerOptions } from "./worker-settings.ts";

const v = useVirtualMill({ duties: false });
const mail = job<null>("mail", { queue: "email" });
const quickly = handler(mail, async () => undefined);

/** What another process has asked of the store: claims, and calls for documents of the registry alone. */
let claims: ClaimRequest[];
let alone: string[];
let mill: Millrace;
/** Claims of that process are not answered. */
let isHanging: boolean;

beforeEach(() => {
  claims = [];
  alone = [];
  isHanging = false;
  const store: Store = {
    ...v.store,
    claim(request) {
      claims.push(request);
      return isHanging ? new Promise(() => undefined) : v.store.claim(request);
    },
    putDocs(puts) {
      if (puts.some(({ kind }) => kind === workerKind)) alone.push("put");
      return v.store.putDocs(puts);
    },
    readDocs(request) {
      if (request.kind === workerKind) alone.push("read");
      return v.store.readDocs(request);
    },
    watch: () => () => undefined,
  };
  mill = millOn(store, {}, v.platform);
});

const start = (
  options: WorkerOptions,
): Promise<{ readonly id: string; readonly stopped: Promise<unknown> }> =>
  v.run(mill.work([quickly], options));

/** The claims and calls of ten seconds, from the first second on. */
async function tenSeconds(): Promise<void> {
  await v.advance(1000);
  claims = [];
  alone = [];
  await v.advance(10_000);
}

describe.each([
  ["without totals", 3],
  ["with totals", { total: 3 }],
])("an idle process %s", (_title, email) => {
  test("writes its notices and signs and reads its bells with the claim of each beat, and never apart", async () => {
    await start({ queues: { email } });
    await tenSeconds();
    expect(alone).toEqual([]);
    const docs = claims.flatMap((request) => request.docs ?? []);
    expect(docs).toHaveLength(claims.length);
    expect(claims.length).toBeGreaterThanOrEqual(9);
    expect(claims.length).toBeLessThanOrEqual(10);
    // Every second beat renews the sign, and the notice where others share a total with it.
    const puts = docs.filter((each) => each.puts.length > 0).length;
    expect(puts).toBeGreaterThanOrEqual(4);
    expect(puts).toBeLessThanOrEqual(6);
    const whole = docs.filter(({ read }) => read !== null && "prefix" in read).length;
    expect(whole).toBe(typeof email === "number" ? 0 : Math.floor(docs.length / 2));
    await v.run(mill.close());
  });

  test("has one claim of its workers carry what is for all of them", async () => {
    await start({ queues: { email }, label: "one" });
    await start({ queues: { email }, label: "two" });
    await tenSeconds();
    expect(alone).toEqual([]);
    expect(claims.length).toBeGreaterThanOrEqual(18);
    expect(claims.filter(({ docs }) => docs !== undefined)).toHaveLength(claims.length / 2);
    await v.run(mill.close());
  });
});

describe("the documents of a beat go alone", () => {
  test("where no slot is free", async () => {
    const gate = deferred();
    await v.run(mill.work([handler(mail, () => gate.promise)], { queues: { email: 1 } }));
    await v.run(mill.enqueue(mail, null));
    await tenSeconds();
    expect(claims).toEqual([]);
    expect(alone.filter((call) => call === "read").length).toBeGreaterThanOrEqual(9);
    gate.resolve();
    await v.run(mill.close());
  });

  test("while a claim hangs, and an order is heard all the same", async () => {
    const worker = await start({ queues: { email: 1 } });
    await v.advance(5000);
    isHanging = true;
    await v.advance(2000);
    await v.run(v.mill.workers.quiet(worker.id));
    await v.advance(2000);
    const [view] = await v.run(v.mill.workers.list());
    expect(view?.mode).toBe("quiet");
    await v.advance(100_000);
    isHanging = false;
    await v.run(mill.close());
  });
});
