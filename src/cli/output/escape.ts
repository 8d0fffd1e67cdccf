/**
 * Makes text that came from jobs safe to print: no name, payload or error message may move the reader's cursor, change
 * colours, ring the bell, turn the reading direction round or forge a line.
 */
import { escapeHidden } from "../../model/hidden-text.ts";

const ownEscapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function escapeText(text: string): string {
  return escapeHidden(text.toWellFormed(), (character) => ownEscapes[character] ?? escapeHidden(character));
}

/** Escapes inside a JSON text, where a character may also be written as its escape without changing the value. */
export function escapeJson(json: string): string {
  return escapeHidden(json, (character) => (character === "\n" ? character : escapeHidden(character)));
}

/** The text as one line of at most `charsMax` characters. */
export function shorten(text: string, charsMax: number): string {
  const characters = Array.from(escapeText(text));
  return characters.length <= charsMax
    ? characters.join("")
    : `${characters.slice(0, Math.max(0, charsMax - 1)).join("")}…`;
}
