import { expect, test } from "vitest";
import { openReference } from "../support/reference-as-store.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { ruleNames, scripts } from "./vector-scripts.ts";
import { answerScript, writeVectors } from "./vectors.ts";

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
