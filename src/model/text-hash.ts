/**
 * Two independent 32-bit hashes of a text, equal on every machine and in every version: stored route numbers and ids of
 * firings are made of them. They spread well and are not cryptographic.
 */

/** Two multiplicative hashes over the UTF-16 code units. */
export function hashPair(text: string): { readonly low: number; readonly high: number } {
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul((high << 7) ^ (high >>> 25) ^ unit, 0x85ebca6b);
  }
  return { low: mix(low), high: mix(high ^ text.length) };
}

/** Makes every bit of the result depend on every bit of the input. */
function mix(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
