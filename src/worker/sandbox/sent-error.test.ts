import { expect, test } from "vitest";
import { Cancel, controlOf, RetryAfter, Snooze, Throttled, Unrecoverable } from "../control.ts";
import { receiveThrown, sendThrown } from "./sent-error.ts";
import type { SentError } from "./sent-error.ts";

/** As it arrives on the other side. */
const across = (thrown: unknown): Error =>
  receiveThrown(JSON.parse(JSON.stringify(sendThrown(thrown))) as SentError);

test.each([
  new Unrecoverable("no"),
  new RetryAfter("5s"),
  new RetryAfter(new Date(5)),
  new Snooze("1m"),
  new Cancel("unwanted"),
  new Throttled("upstream"),
  new Throttled("upstream", { key: null, retryAfter: "1s" }),
  new Throttled("upstream", { key: "acme" }),
])("a control outcome asks for the same on the other side: %s", (control) => {
  expect(controlOf(across(control))).toEqual(controlOf(control));
});

test("an error keeps its name, message, code, stack and causes", () => {
  const thrown = Object.assign(new RangeError("far", { cause: new Error("deeper") }), { code: "E_FAR" });
  const received = across(thrown) as Error & { code?: string };
  expect(received).toBeInstanceOf(Error);
  expect([received.name, received.message, received.code]).toEqual(["RangeError", "far", "E_FAR"]);
  expect(received.stack).toBe(thrown.stack);
  expect((received.cause as Error).message).toBe("deeper");
  expect(controlOf(received)).toBeNull();
});

test("whatever else is thrown arrives as an error", () => {
  expect(across("a text").message).toBe("a text");
  expect(across(null).message).toBe("null");
  expect(across({ message: "like an error" }).message).toBe("like an error");
});

test.each([
  { kind: "snooze", delayMs: -1 },
  { kind: "snooze" },
  { kind: "retry-after", due: {} },
  { kind: "throttled" },
  { kind: "throttled", limit: "upstream", due: "soon" },
  { kind: "explode" },
  5,
  null,
])("a control outcome that no handler could have asked for is no control outcome: %j", (control) => {
  const error = { name: "Error", message: "told badly" };
  const received = receiveThrown({ error, control } as unknown as SentError);
  expect(received.message).toBe("told badly");
  expect(controlOf(received)).toBeNull();
});
