/**
 * A Postgres server of its own, with fsync on, killed under load. Claims do not wait for its disk
 * (docs/decisions/0012).
 */
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { startPostgres } from "../support/servers/postgres-server.ts";
import { describeCrashes } from "./crash-suite.ts";

let cases = 0;

describeCrashes({
  title: "a Postgres server that crashes",
  isSerial: false,
  forgetsClaims: true,
  start: () => startPostgres({ settings: ["fsync=on", "shared_buffers=32MB"] }),
  async open(server) {
    const url = `${server.url}?schema=case_${++cases}`;
    return { url, store: await openPostgresStore({ url, platform: nodePlatform, poolMax: 2 }) };
  },
});
