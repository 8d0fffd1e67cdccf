/** A real Postgres behind a proxy that breaks connections. */
import { describe, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { aJob } from "../support/builders.ts";
import { SchemaPool } from "../support/servers/postgres-shared.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { openTcpProxy } from "../support/servers/tcp-proxy.ts";
import { callTimeoutMs, countJobs, describeNetwork, unknown, usePlace } from "./network-suite.ts";
import type { NetworkPlace } from "./network-suite.ts";

const database = useTestDatabase();
const schemas = new SchemaPool(database);

async function open(given: { readonly callTimeoutMs?: number } = {}): Promise<NetworkPlace> {
  const url = new URL(database.url);
  const proxy = await openTcpProxy({ port: Number(url.port), host: url.hostname });
  const shared = { platform: nodePlatform, poolMax: 3 };
  let schema = "";
  const direct = await schemas.open((place) => {
    ({ schema } = place);
    return openPostgresStore({ ...place, platform: nodePlatform });
  });
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  const store = await openPostgresStore({ ...shared, url: url.href, schema, ...given });
  return { proxy, store, direct };
}

describeNetwork({
  title: "a network that breaks before Postgres",
  words: {
    submit: "submit_one_v1",
    submitKeyed: "submit_v1",
    claim: "claim_v1",
    settle: "settle_v1",
    readJobs: "read_jobs_v1",
  },
  open,
});

describe("a Postgres that falls silent", () => {
  const place = usePlace(() => open({ callTimeoutMs }));

  test("ends the calls of its connections as unknown, and the next ones use another", async () => {
    const { proxy, store, direct } = place;
    const connectTwice = (): Promise<unknown> => Promise.all([store.readJobs(["a"]), store.readJobs(["a"])]);
    await connectTwice();
    proxy.halfOpen();
    const { made } = proxy;
    await expect(store.submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toThrow(unknown);
    // The caller did not wait for the connection that cancels the call on the server.
    expect(proxy.made).toBe(made);
    proxy.heal();
    expect(await countJobs(direct)).toBe(0);
    await connectTwice();
    proxy.oneWay();
    await expect(store.submit([{ jobs: [aJob({ id: "b" })] }])).rejects.toThrow(unknown);
    proxy.heal();
    expect(await countJobs(direct)).toBe(1);
    await store.submit([{ jobs: [aJob({ id: "c" })] }]);
    expect((await direct.readJobs(["a", "b", "c"])).map((each) => each?.id)).toEqual([undefined, "b", "c"]);
  });
});
