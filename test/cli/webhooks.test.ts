// Webhooks from the command line, on a real file.
import { expect, test } from "vitest";
import { job, Millrace } from "../../src/index.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

const args = (text: string, store: string): string[] => [...text.split(" "), "--store", store];
const secret = "a secret of enough length";

async function aWebhook(): Promise<string> {
  const store = aStoreUrl();
  await using mill = await Millrace.open(store, { log: false });
  const url = "http://127.0.0.1:1/nobody";
  const retry = { attempts: 1 };
  await mill.webhooks.add("hook", { url, secret, kinds: "submitted", queue: "email", retry });
  return store;
}

test("lists, shows, pauses, resumes, tries and removes webhooks, and never shows a secret", async () => {
  const store = await aWebhook();
  const listed = await say(args("webhooks", store));
  expect(listed.out.split("\n")[1]).toMatch(/^hook +http:\/\/127.0.0.1:1\/nobody +submitted; queue email$/);
  expect((await say(args("webhooks --json", store))).out).not.toContain(secret);
  expect(await sayJson(args("webhooks pause hook", store))).toMatchObject({ paused: true });
  expect((await say(args("webhooks", store))).out).toContain("paused");
  expect(await sayJson(args("webhooks resume hook", store))).toMatchObject({ paused: false });
  const { tried } = await sayJson(args("webhooks test hook", store));
  expect((await say(args(`show ${String(tried)}`, store))).out).toContain("millrace:webhooks");
  expect(await sayJson(args("webhooks delete hook", store))).toMatchObject({ name: "hook" });
  expect((await say(args("webhooks", store))).out).toBe("no webhooks\n");
});

test("shows dead letters with their reason, and tries them again", async () => {
  const store = await aWebhook();
  await using mill = await Millrace.open(store, { log: false, duties: { webhooks: { sleep: "50ms" } } });
  await mill.enqueue(job("mail", { queue: "email" }), 1);
  mill.duties.start();
  const failed = Promise.withResolvers<void>();
  mill.on("failed", () => failed.resolve());
  await failed.promise;
  const { dead } = (await sayJson(args("webhooks dead hook", store))) as { dead: Record<string, unknown>[] };
  expect(dead).toMatchObject([
    {
      webhook: "hook",
      event: { kind: "submitted", queue: "email" },
      failures: [{ error: { name: "AddressRefused" } }],
    },
  ]);
  const again = await sayJson(args(`webhooks redeliver hook --id ${String(dead[0]?.["id"])}`, store));
  expect(again).toMatchObject({ redelivered: 1 });
});

test("says what does not exist and what is missing", async () => {
  const store = await aWebhook();
  const errors: [string, number, RegExp][] = [
    ["webhooks show ghost", 1, /^millrace: unknown-webhook: /],
    ["webhooks test ghost", 1, /^millrace: unknown-webhook: /],
    ["webhooks add new --url https://x.example", 2, /needs --url and --secret-env/],
    [
      "webhooks add new --url https://x.example --secret-env NO_SUCH_VARIABLE",
      2,
      /no variable NO_SUCH_VARIABLE/,
    ],
    ["webhooks add new --url ftp://x.example --secret-env PATH", 2, /invalid-option/],
  ];
  for (const [text, code, err] of errors) {
    const said = await say(args(text, store));
    expect([said.code, said.err], text).toEqual([code, expect.stringMatching(err)]);
  }
});
