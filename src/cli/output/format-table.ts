/**
 * Prints rows as a table: every cell escaped and on one line, each column as wide as its widest cell, up to its
 * maximum.
 */
import { shorten } from "./escape.ts";

const gap = "  ";

interface Column {
  readonly title: string;
  readonly charsMax?: number;
  readonly isNumber?: boolean;
}

export function formatTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const cells = [columns.map(({ title }) => title), ...rows].map((row) =>
    row.map((cell, at) => shorten(cell, columns[at]?.charsMax ?? 200)),
  );
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => lengthOf(row[at] ?? ""))));
  const lines = cells.map((row) =>
    row
      .map((cell, at) => {
        const padding = " ".repeat((widths[at] as number) - lengthOf(cell));
        return columns[at]?.isNumber === true ? padding + cell : cell + padding;
      })
      .join(gap)
      .trimEnd(),
  );
  return lines.join("\n");
}

function lengthOf(text: string): number {
  return Array.from(text).length;
}
