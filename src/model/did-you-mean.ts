/** The hint of an error about an unknown name: the known name that is most like it, if one is. */

/** @returns such as ` (did you mean "list"?)`, or nothing. */
export function didYouMean(given: string, known: Iterable<string>): string {
  const editsMax = Math.max(1, Math.floor(given.length / 3));
  const near = [...known]
    .map((name) => ({ name, edits: editsBetween(given, name) }))
    .filter(({ edits }) => edits <= editsMax)
    .toSorted((one, other) => one.edits - other.edits)[0];
  return near === undefined ? "" : ` (did you mean ${JSON.stringify(near.name)}?)`;
}

/** How many characters must be added, left out or replaced (Levenshtein). */
function editsBetween(from: string, to: string): number {
  let before = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [at, character] of Array.from(from.slice(0, 80)).entries()) {
    const edits = [at + 1];
    for (const [index, other] of Array.from(to).entries()) {
      const replaced = (before[index] as number) + (character === other ? 0 : 1);
      edits.push(Math.min(replaced, (before[index + 1] as number) + 1, (edits[index] as number) + 1));
    }
    before = edits;
  }
  return before.at(-1) as number;
}
