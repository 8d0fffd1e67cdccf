/** `millrace doctor` on a real cluster: every primary is looked at, and the jobs of all partitions are counted. */
import { beforeAll, expect, test } from "vitest";
import { say, sayJson } from "../cli/run-millrace.ts";
import { startRedisCluster } from "../support/servers/redis-cluster.ts";
import type { RedisCluster } from "../support/servers/redis-cluster.ts";

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster();
  return () => cluster.stop();
});

test("doctor names the servers of a cluster one by one, and finds nothing where nothing is wrong", async () => {
  const store = `${cluster.url}&prefix=looked-at`;
  const missing = await say(["doctor", "--store", store]);
  expect(missing.err).toMatch(/^millrace: store-missing/);
  for (let job = 0; job < 12; job++)
    await sayJson(["enqueue", "send", "1", "--id", `job-${job}`, "--store", store]);
  const report = (await sayJson(["doctor", "--store", store])) as {
    readonly ok: boolean;
    readonly redis: {
      readonly servers: readonly {
        readonly partitions: readonly {
          readonly kinds: readonly { readonly kind: string; readonly entries: number }[];
        }[];
      }[];
    };
  };
  expect(report).toMatchObject({ ok: true, findings: [], jobs: { ready: 12 } });
  const { servers } = report.redis;
  expect(servers).toHaveLength(3);
  const kinds = servers.flatMap(({ partitions }) => partitions.flatMap((partition) => partition.kinds));
  const specs = kinds.filter(({ kind }) => kind === "spec");
  expect(specs.reduce((sum, { entries }) => sum + entries, 0)).toBe(12);
  // Any of the servers that the URL names will do.
  const elsewhere = store.replace("//", "//127.0.0.1:1,");
  expect((await say(["doctor", "--store", elsewhere])).out.match(/^server +/gm)).toHaveLength(3);
});
