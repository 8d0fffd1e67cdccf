/** The slots of a cluster: in which one a partition's keys live, and who owns which. */
import { MillraceError } from "../../../model/error.ts";

const slotCount = 16_384;

/** CRC16 (XMODEM) of the text in the braces of the tag, as the servers compute it. */
export function slotOf(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag.slice(1, -1))) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc % slotCount;
}

export interface Owner {
  readonly from: number;
  readonly to: number;
  readonly address: string;
}

/** As one server says it (CLUSTER SLOTS). */
export function readOwners(answer: unknown, askedAddress: string): Owner[] {
  const rows = answer as [number, number, [string | null, number]][];
  if (!Array.isArray(rows) || rows.length === 0)
    throw new MillraceError(
      "store-unavailable",
      "The cluster has no slots yet; nothing of this call happened.",
    );
  return rows.map(([from, to, [host, port]]) => ({
    from,
    to,
    // A server that does not know its own name means the one it was asked under.
    address: `${host === null || host === "" || host === "?" ? hostOf(askedAddress) : host}:${port}`,
  }));
}

export function hostOf(address: string): string {
  return address.slice(0, address.lastIndexOf(":"));
}
