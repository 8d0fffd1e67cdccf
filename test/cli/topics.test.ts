// Topics from the command line, on a real file.
import { expect, test } from "vitest";
import { job, Millrace, topic } from "../../src/index.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

const args = (text: string, store: string): string[] => [...text.split(" "), "--store", store];
const created = topic<{ userId: string }>("user.created");

async function aTopic(): Promise<string> {
  const store = aStoreUrl();
  await using mill = await Millrace.open(store, { log: false });
  await mill.topics.subscribe(created, job<{ userId: string }>("send-welcome", { queue: "email" }));
  return store;
}

test("lists topics, adds, pauses, resumes and removes subscriptions, and publishes", async () => {
  const store = await aTopic();
  expect((await say(args("topics", store))).out.split("\n")[1]).toMatch(
    /^user\.created +send-welcome in email$/,
  );
  const added = await sayJson(args("topics subscribe user.created --job index --subscription search", store));
  expect(added).toMatchObject({
    subscriptions: [
      { name: "search", job: "index", queue: "default", paused: false },
      { name: "send-welcome", queue: "email" },
    ],
  });
  await sayJson(args("topics pause user.created --subscription search", store));
  expect((await say(args("topics", store))).out).toContain("search (index) in default, paused");
  const publish = args('topics publish user.created --id p1 --input {"userId":"1"}', store);
  const { published } = await sayJson(publish);
  expect(Object.keys(published as object)).toEqual(["send-welcome"]);
  expect((await sayJson(publish))["published"]).toEqual(published);
  await sayJson(args("topics resume user.created --subscription search", store));
  await sayJson(args("topics unsubscribe user.created --subscription send-welcome", store));
  expect(
    Object.keys((await sayJson(args("topics publish user.created", store)))["published"] as object),
  ).toEqual(["search"]);
  expect((await sayJson(args("topics delete user.created", store)))["name"]).toBe("user.created");
  expect((await say(args("topics", store))).out).toBe("no topics\n");
});

test("says what does not exist and what is missing", async () => {
  const store = await aTopic();
  const errors: [string, number, RegExp][] = [
    ["topics show ghost", 1, /^millrace: unknown-topic: /],
    ["topics publish ghost", 1, /^millrace: unknown-topic: /],
    ["topics unsubscribe user.created --subscription ghost", 1, /^millrace: unknown-subscription: /],
    ["topics pause user.created", 2, /needs --subscription/],
    ["topics subscribe user.created", 2, /needs --job/],
    ["topics publish user.created --input {", 2, /--input is not JSON/],
  ];
  for (const [text, code, err] of errors) {
    const said = await say(args(text, store));
    expect([said.code, said.err], text).toEqual([code, expect.stringMatching(err)]);
  }
});
