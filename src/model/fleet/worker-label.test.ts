import { expect, test } from "vitest";
import { workerLabel } from "./worker-label.ts";

const bare = { prefix: undefined, version: undefined, id: undefined, bootId: "0badcafe" };

test("a label has prefix, version and id, and leaves out what is not set", () => {
  expect(workerLabel({ ...bare, prefix: "shop", version: "1.4.2", id: "7" })).toBe("shop-worker-1.4.2-7");
  expect(workerLabel({ ...bare, prefix: "shop", id: "7" })).toBe("shop-worker-7");
  expect(workerLabel({ ...bare, prefix: "shop" })).toBe("shop-worker-0bad");
});

test("without a prefix there is no label", () => {
  expect(workerLabel({ ...bare, version: "1.4.2", id: "7" })).toBeNull();
});
