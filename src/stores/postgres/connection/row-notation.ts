/**
 * A row as one text. Some libraries parse values by their type or rename columns. They do not change one text column
 * with a plain name. So a statement that runs through such a library asks for its rows in Postgres's own notation,
 * (a,"b ""quoted""",,d), and this file takes them apart. An empty field is null, and "" is an empty text.
 */
import type { Row } from "./database.ts";

const column = "line";

export function rowText(text: string): string {
  return `SELECT answer::text AS ${column} FROM (${text}) AS answer`;
}

export function unpackRow(row: unknown): Row {
  const line = (row as Record<string, unknown> | null)?.[column];
  if (typeof line !== "string") throw new Error("the connection's library changed the answer of a statement");
  return readRowText(line);
}

export function readRowText(line: string): Row {
  const row: Row = [];
  let at = 1;
  do {
    const from = at;
    let field = "";
    let isQuoted = false;
    for (; isQuoted || (line[at] !== "," && at < line.length - 1); at++) {
      const letter = line[at] as string;
      if (letter !== '"' && letter !== "\\") field += letter;
      else if (isQuoted && line[at + 1] === letter) field += line[++at];
      else isQuoted = !isQuoted;
    }
    row.push(at === from ? null : field);
  } while (line[at++] === ",");
  return row;
}
