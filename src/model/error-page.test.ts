import { expect, test } from "vitest";
import { errorCatalogue } from "./error.ts";

/** The docs page is made from the catalogue: `-u` writes it. */
function errorPage(): string {
  const rows = Object.entries(errorCatalogue).map(
    ([code, { meaning, retryable, status }]) =>
      `| \`${code}\` | ${meaning} | ${retryable ? "yes" : "no"} | ${status} |`,
  );
  return [
    "# Error codes",
    "",
    "Every error of Millrace is a `MillraceError` with a stable `code`, `retryable`, `outcome` (`did-not-happen` or",
    "`unknown`) and, where there is one, `cause`. An enqueue whose outcome is unknown also has `ids`: those it was to make.",
    "Repeat it with `{ repeatOf: error.ids[0] }`: no second job is made.",
    "",
    "| code | meaning | may succeed later | HTTP status |",
    "|---|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}

test("the page of error codes says what the catalogue says", async () => {
  await expect(errorPage()).toMatchFileSnapshot("../../docs/reference/errors.md");
});
