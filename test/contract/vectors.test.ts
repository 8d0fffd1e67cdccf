import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openReference } from "../support/stores/reference-as-store.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { ruleNames, scripts } from "./vector-scripts.ts";
import { answerScript, writeVectors } from "./vectors.ts";

/** R4 and R7 need long stories, which test/model and the contract's cases tell. */
const withoutVectors = ["r4-arrive", "r7-admit"];

test("each rule of the contract has vectors", () => {
  const contract = readFileSync(new URL("../../src/store/store.ts", import.meta.url), "utf8");
  const rules = [...contract.matchAll(/^ \*  R(\d+) ([a-z]+) /gm)].map(
    ([, number, name]) => `r${number}-${name}`,
  );
  expect(rules).toEqual([...ruleNames, ...withoutVectors].toSorted(byNumber));
});

const byNumber = (one: string, other: string): number =>
  Number.parseInt(one.slice(1)) - Number.parseInt(other.slice(1));

for (const rule of ruleNames) {
  test(`the vectors of ${rule} are what the reference model answers`, async () => {
    const vectors = [];
    for (const script of scripts[rule]) {
      const platform = createHeldPlatform();
      vectors.push(await answerScript(openReference(platform, 0), platform, script));
    }
    await expect(writeVectors(rule, vectors)).toMatchFileSnapshot(`./vectors/${rule}.json`);
  });
}
