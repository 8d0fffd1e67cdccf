// The guide's table of events names exactly the kinds of the catalogue, with their meanings and their fields.
import { readFileSync } from "node:fs";
import { eventCatalogue } from "millrace";
import { expect, test } from "vitest";

const page = readFileSync(new URL("../../docs/guides/events.md", import.meta.url), "utf8");

test("the table of events is the catalogue", () => {
  const [, table = ""] = page.split("\n## Kinds\n");
  const rows = [...table.matchAll(/^\| `([a-z-]+)` \| (.*) \| (.*) \|$/gm)].map(([, ...cells]) => cells);
  const told = Object.entries(eventCatalogue).map(([kind, { meaning, fields }]) => [
    ...[kind, meaning, fields.map((field) => `\`${field}\``).join(", ")],
  ]);
  expect(rows).toEqual(told);
});
