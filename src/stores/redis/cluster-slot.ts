/**
 * The slot of a cluster that a partition's keys live in: CRC16 (XMODEM) of the text in the braces of their tag, as the
 * servers compute it.
 */

export const slotCount = 16_384;

export function slotOf(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag.slice(1, -1))) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc % slotCount;
}
