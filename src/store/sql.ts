/**
 * The tag of SQL templates, by which editors know the language. A text loses the indentation that all its lines share,
 * so that it can be indented with the code around it. A fragment of several lines is indented like the line that it is
 * put into. Nothing is escaped: only texts and numbers of our own go in, values travel as parameters.
 */
export function sql(parts: TemplateStringsArray, ...fragments: readonly (string | number)[]): string {
  let text = parts[0] as string;
  for (const [index, fragment] of fragments.entries()) {
    const line = text.slice(text.lastIndexOf("\n") + 1);
    const indent = line.slice(0, line.length - line.trimStart().length);
    text += String(fragment).replaceAll("\n", `\n${indent}`) + (parts[index + 1] as string);
  }
  const lines = text.split("\n");
  const filled = lines.slice(1).filter((line) => line.trim() !== "");
  const shared = Math.min(...filled.map((line) => line.length - line.trimStart().length));
  if (lines.length === 1) return text;
  return [lines[0] as string, ...lines.slice(1).map((line) => line.slice(shared))].join("\n").trim();
}

const columnsMax = 100;

/** A list in lines that are not too wide to be read. */
export function inLines(items: readonly string[], between = ", "): string {
  let text = "";
  let width = 0;
  for (const [index, item] of items.entries()) {
    const isFirst = index === 0;
    const isFull = !isFirst && width + item.length > columnsMax;
    text += isFirst ? item : isFull ? `${between.trimEnd()}\n${item}` : `${between}${item}`;
    width = isFirst || isFull ? item.length : width + between.length + item.length;
  }
  return text;
}
