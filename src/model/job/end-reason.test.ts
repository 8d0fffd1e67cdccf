import { expect, test } from "vitest";
import { endReasons } from "./end-reason.ts";

/** The docs page is made from the catalogue: `-u` writes it. */
function endReasonPage(): string {
  const rows = Object.entries(endReasons).map(
    ([reason, { state, meaning }]) => `| \`${reason}\` | ${state} | ${meaning} |`,
  );
  return [
    "# End reasons",
    "",
    "A job that ended without success has a `reason`: in `mill.jobs.get`, in its events, and as a filter of",
    '`mill.jobs.list({ reason: "crash-loop" })` and `millrace list --reason crash-loop`. A job that somebody cancelled has',
    "the words that were given, and `asked` if there were none.",
    "",
    "| reason | state | meaning |",
    "|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}

test("the page of end reasons says what the catalogue says", async () => {
  await expect(endReasonPage()).toMatchFileSnapshot("../../../docs/reference/end-reasons.md");
});
