/**
 * How much memory the server of a partition uses, for whatever lies there, and how many are connected to it. A server
 * is known by the name that it gave itself when it started, because several partitions may lie on it.
 */
import type { StoreMeasure } from "../../../store/store.ts";
import type { Connection } from "../connection/connection.ts";
import { nullIfRefused, readInfo } from "../connection/server-check.ts";

const nameLength = 12;

/** Nothing where this user may not ask. */
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
