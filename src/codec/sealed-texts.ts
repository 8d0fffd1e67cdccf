/**
 * Texts by name that lie beside the payload of a job, such as its headers. With encryption they are kept as one payload
 * of their own, without it as they are, so that a reader tells one from the other by its type.
 */
import type { PayloadCoder } from "./payload.ts";

export type Texts = Readonly<Record<string, string>>;

/** As a store keeps them: a string is an encrypted payload. */
export type KeptTexts = Texts | string;

export function keepTexts(coder: PayloadCoder, texts: Texts, what: string): KeptTexts {
  return coder.isEncrypting ? coder.encode(texts, what) : texts;
}

/** Throws where a payload would: without its key, or if it is damaged. */
export function openTexts(coder: PayloadCoder, kept: KeptTexts = {}): Texts {
  return typeof kept === "string" ? (coder.decode(kept) as Texts) : kept;
}
