/**
 * Characters that a reader does not see as they are: they move the cursor, break a line, reorder the text around them
 * or show nothing at all. A name has none of them, and what people read shows them escaped, so that nobody reads
 * "gpj.exe" for "exe.jpg" or takes two queues for one.
 */

/** All but the two joiners, which Persian words and emoji of several people are written with. */
export const hiddenInNames = /[\p{Cc}\u2028\u2029]|(?![\u200c\u200d])\p{Cf}/u;

const hidden = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** The text with each hidden character as its escape, as JSON writes it. */
export function escapeHidden(text: string, escape: (character: string) => string = codeUnits): string {
  return text.replace(hidden, escape);
}

function codeUnits(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}
