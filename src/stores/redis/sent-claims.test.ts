import { expect, test } from "vitest";
import { emptyHints } from "../../store/hints.ts";
import { SentClaims } from "./sent-claims.ts";

const ready = (...routes: number[]) => ({ ...emptyHints(), routes: new Set(routes) });

test("a route that a later claim has asked for is not hinted at, any other is", () => {
  const claims = new SentClaims();
  claims.sends([1, 2]);
  const { count } = claims;
  expect(claims.without(ready(1, 2, 3), count).routes).toEqual(new Set([1, 2, 3]));
  claims.sends([2]);
  expect(claims.without(ready(1, 2, 3), count).routes).toEqual(new Set([1, 3]));
});
