/**
 * How much memory the server of a partition uses in all, and how many clients it has. Several partitions may be on one
 * server, so a server is identified by the run id that it chose at its start.
 */
import type { StoreMeasure } from "../../../store/store.ts";
import type { Connection } from "../connection/connection.ts";
import { nullIfRefused, readInfo } from "../connection/server-check.ts";

const nameLength = 12;

/** Empty if the user has no right to ask. */
export async function measureServer(ask: Connection["ask"]): Promise<readonly StoreMeasure[]> {
  const answer = await ask("INFO", []).catch(nullIfRefused);
  if (answer === null) return [];
  const info = readInfo(String(answer));
  const number = (name: string): number => Number(info.get(name) ?? 0);
  return [
    {
      server: (info.get("run_id") ?? "redis").slice(0, nameLength),
      sizeBytes: number("used_memory"),
      connections: number("connected_clients"),
    },
  ];
}
