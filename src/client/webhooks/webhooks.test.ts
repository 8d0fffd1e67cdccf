import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { isSignedBy, sign } from "../../engine/webhooks/signature.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { WebhookOptions } from "../../model/events/webhook.ts";

const coded = (code: string) => expect.objectContaining({ code });
const secret = "a secret of enough length";
const url = "https://receiver.example/hook";
const plain = job<number>("plain");

describe("webhooks", () => {
  const v = useVirtualMill();

  test("wrong arguments are refused before any write", async () => {
    const wrong: Partial<Record<keyof WebhookOptions, unknown>>[] = [
      { url: "ftp://x.example" },
      { url: "receiver.example" },
      { url: "https://user:password@x.example" },
      { url: `https://x.example/${"x".repeat(3000)}` },
      { secret: "short" },
      { secret: [] },
      { secret: undefined },
      { kinds: ["nothing"] },
      { kinds: [] },
      { timeout: "1h" },
      { retry: { attempts: 0 } },
      { ordered: "yes" },
      { headers: {} } as object,
    ];
    for (const given of wrong) {
      const adding = (async () => v.mill.webhooks.add("hook", { url, secret, ...given } as WebhookOptions))();
      await expect(v.run(adding), JSON.stringify(given)).rejects.toMatchObject({
        code: expect.stringMatching(/^invalid-/),
      });
    }
    const unnamed = (async () => v.mill.webhooks.add("", { url, secret }))();
    await expect(v.run(unnamed)).rejects.toEqual(coded("invalid-name"));
    expect(await v.run(v.mill.webhooks.list())).toEqual([]);
    const unknown: (() => Promise<unknown>)[] = [
      () => v.mill.webhooks.pause("x"),
      () => v.mill.webhooks.test("x"),
    ];
    for (const act of unknown) await expect(v.run(act())).rejects.toEqual(coded("unknown-webhook"));
    for (const target of [undefined, null, {}, { id: "a", webhook: "b" }, "a"]) {
      const redelivering = v.mill.webhooks.redeliver(target as { id: string });
      await expect(v.run(redelivering)).rejects.toEqual(coded("invalid-option"));
    }
    for (const target of [{ id: 5 }, { webhook: {} }, { id: "" }]) {
      const redelivering = v.mill.webhooks.redeliver(target as { id: string });
      await expect(v.run(redelivering)).rejects.toEqual(coded("invalid-name"));
    }
  });

  test("secrets are never shown", async () => {
    const view = await v.run(v.mill.webhooks.add("hook", { url, secret, kinds: "failed" }));
    expect(JSON.stringify(view)).not.toContain(secret);
    expect(view).toMatchObject({ name: "hook", url, secrets: 1, kinds: ["failed"], timeoutMs: 10_000 });
  });

  test("a webhook that was paused for longer than the feed is kept goes on with what is left, and counts the gap", async () => {
    await v.run(v.mill.webhooks.add("hook", { url, secret, kinds: "submitted" }));
    for (const number of [1, 2, 3]) await v.run(v.mill.enqueue(plain, number));
    await v.advance(1000);
    // Prunes the change number of the webhooks and two of the submits.
    await v.run(v.store.prune({ what: "feed", olderThanMs: 0, max: 3 }));
    await v.run(v.mill.duties.run("webhooks"));
    expect(await v.run(v.mill.webhooks.get("hook"))).toMatchObject({ gaps: 1 });
    const { jobs } = await v.run(v.mill.jobs.list({ queue: "millrace:webhooks" }));
    expect(jobs.map(({ input }) => input)).toMatchObject([{ hook: "hook", event: { kind: "submitted" } }]);
  });
});

describe("the signature", () => {
  const now = 1_700_000_000_000;
  const signature = sign("body", ["one", "two"], now);
  const holds = (given: object = {}, at = now): boolean =>
    isSignedBy({ signature, body: "body", secret: "two", ...given }, at);

  test("has the time, and for each secret a part computed from time and body", () => {
    expect(signature).toMatch(/^t=1700000000,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/);
    expect([holds(), holds({ secret: "one" }), holds({ body: Buffer.from("body") })]).toEqual([
      true,
      true,
      true,
    ]);
  });

  test("is refused for another body, secret or time, and if it is malformed", () => {
    const wrong: [object, number?][] = [
      [{ body: "Body" }],
      [{ secret: "three" }],
      [{ signature: signature.replace("t=17", "t=18") }],
      [{}, now + 301_000],
      [{}, now - 301_000],
      [{ signature: "" }],
      [{ signature: null }],
      [{ signature: "t=1700000000" }],
      [{ signature: "t=1700000000,v1=00" }],
      [{ signature: `v1=${"0".repeat(64)}` }],
    ];
    for (const [given, at] of wrong) expect(holds(given, at), JSON.stringify(given)).toBe(false);
    expect(holds({ tolerance: "10m" }, now + 301_000)).toBe(true);
    expect(holds({ tolerance: 10_000 }, now + 11_000)).toBe(false);
    expect(() => holds({ secret: [] })).toThrow(coded("invalid-option"));
    expect(() => holds({ body: { parsed: true } })).toThrow(coded("invalid-option"));
  });

  test("refuses a tolerance that would switch the check of the age off", () => {
    for (const tolerance of [NaN, {}, "soon", "five", null, -1, Infinity, [300]])
      expect(() => holds({ tolerance }, now + 365 * 86_400_000)).toThrow(coded("invalid-duration"));
    expect(() => holds({ tolerances: 300 })).toThrow('did you mean "tolerance"?');
  });
});
