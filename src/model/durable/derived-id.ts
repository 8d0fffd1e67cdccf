/**
 * What a run derives instead of drawing: ids that are the same in every replay. They follow from the run, its round and
 * a count or a call, so a step that runs again after a crash hands the same key to the outside.
 */

export interface RunName {
  /** The id of the job. */
  readonly run: string;
  /** Grows with each `continueWith` and each retry from the start. */
  readonly round: number;
}

/** SHA-256 of a text, which the model is handed. */
export type Digest = (text: string) => Uint8Array;

/** A UUID of version 8 (RFC 9562): its bits come from a digest. */
export function derivedUuid({ run, round }: RunName, count: number, digest: Digest): string {
  const bytes = digest(`uuid\n${run}\n${round}\n${count}`).slice(0, 16);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** For payments and other systems that must act once: the same for every try of a step, and for no other step. */
export function stepIdempotencyKey({ run, round }: RunName, call: string): string {
  return `${run}:${round}:${call}`;
}
