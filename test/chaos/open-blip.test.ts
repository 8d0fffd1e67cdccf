/** One cut connection while a process opens the store and starts a worker: both go on. */
import { describe, expect, onTestFinished, test } from "vitest";
import { openMillrace } from "../../src/open.ts";
import { openTcpProxy } from "../support/servers/tcp-proxy.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useOwnRedis } from "../support/servers/use-redis.ts";
import { limit, subscription, topic } from "../../src/index.ts";
import { handler } from "../../src/worker/handler.ts";
import { job } from "../../src/engine/submit/job-definition.ts";

const database = useTestDatabase();
const redis = useOwnRedis();

const upstream = limit("upstream", { concurrency: 2 });
const mail = job<number, number>("mail", { limits: [upstream.use()] });

describe.each([
  [
    "Postgres",
    () => new URL(database.url),
    "application_name",
    ["read_gates_v1", "put_gates_v1", "put_docs_v1"],
  ],
  ["Redis", () => new URL(redis.server.url), "info", ["mr1_read_gates", "mr1_put_gates", "mr1_put_docs"]],
] as const)("on %s", (_title, urlOf, greeting, words) => {
  test("open and work outlive a connection that is cut", async () => {
    const url = urlOf();
    const proxy = await openTcpProxy({ port: Number(url.port), host: url.hostname });
    onTestFinished(() => proxy.close());
    url.hostname = "127.0.0.1";
    url.port = String(proxy.port);
    const greeted = proxy.dropRequest(greeting);
    const mill = await openMillrace(url.href, { log: false, namespace: "blip" });
    onTestFinished(async () => void (await mill.close()));
    await greeted;
    for (const word of words) {
      const lost = proxy.cutReply(word);
      const named = word.replaceAll("_", "-");
      const worker = await mill.work([handler(mail, ({ input }) => input)], {
        label: named,
        subscriptions: [subscription(topic<number>(named), mail)],
      });
      if (word.includes("gates")) proxy.cut();
      else await lost;
      await worker.stop();
    }
    expect(await mill.topics.list()).toHaveLength(words.length);
  });
});
