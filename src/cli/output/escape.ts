/**
 * Makes text that came from jobs safe to print: no name, payload or error message may move the reader's cursor, change
 * colours, ring the bell, turn the reading direction round or forge a line.
 */

// C0 and C1 controls, DEL, line separators, and the marks that reorder or hide text.
const unsafe =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

export function escapeText(text: string): string {
  return text.toWellFormed().replace(unsafe, escapeCharacter);
}

/** Escapes inside a JSON text, where a character may also be written as its escape without changing the value. */
export function escapeJson(json: string): string {
  return json.replace(unsafe, (character) => (character === "\n" ? character : escapeCharacter(character)));
}

function escapeCharacter(character: string): string {
  switch (character) {
    case "\n":
      return "\\n";
    case "\r":
      return "\\r";
    case "\t":
      return "\\t";
    default:
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  }
}

/** The text as one line of at most `charsMax` characters. */
export function shorten(text: string, charsMax: number): string {
  const characters = Array.from(escapeText(text));
  return characters.length <= charsMax
    ? characters.join("")
    : `${characters.slice(0, Math.max(0, charsMax - 1)).join("")}…`;
}
