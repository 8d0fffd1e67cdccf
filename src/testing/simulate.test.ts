/** simulate as its users write it: right handlers pass at every crash point, bugs are found with theirs. */
import { expect, test } from "vitest";
import { z } from "zod";
import { handler, job } from "millrace";
import type { Handler } from "millrace";
import { simulate } from "millrace/testing";
import type { SimulateOptions, TestMillrace } from "millrace/testing";

const order = job("order", {
  input: z.object({ id: z.string() }),
  signals: { paid: z.object({ ref: z.string() }) },
  durable: { version: 1 },
});

/** What lies outside: a bank that knows keys, and a printer that does not. */
class World {
  readonly booked: string[] = [];
  readonly printed: string[] = [];
  book(key?: string): void {
    if (key === undefined || !this.booked.includes(key)) this.booked.push(key ?? "none");
  }
}

type Bug = "effect outside of a step" | "step without a key";

const handlersOf =
  (bug: Bug | null) =>
  (world: World): Handler[] => [
    handler(order, async ({ input, step }) => {
      await step.run("book", ({ idempotencyKey }) => {
        if (bug === "step without a key") world.book();
        else world.book(idempotencyKey);
      });
      const { value } = await step.waitFor("paid");
      if (bug === "effect outside of a step") world.printed.push(input.id);
      return step.run("ship", () => value.ref);
    }),
  ];

const scenario = async (t: TestMillrace): Promise<void> => {
  const { id } = await t.enqueue(order, { id: "17" }, { id: "order-17" });
  await t.drain();
  await t.mill.signal(id, "paid", { ref: "visa" }, { key: "event-1" });
  await t.drain();
};

const ordering = (bug: Bug | null = null): SimulateOptions<World> => ({
  world: () => new World(),
  handlers: handlersOf(bug),
  scenario,
  invariants: {
    "every order completes": (t) => {
      expect(t.jobs().map(({ state, result }) => [state, result])).toEqual([["completed", "visa"]]);
    },
    "it is booked once": (_, world) => world.booked.length === 1,
    "it is printed at most once": (_, world) => world.printed.length <= 1,
  },
});

test("a right handler passes at every crash point, before and after each commit", async () => {
  const report = await simulate(ordering());
  expect(report.skipped).toBe(0);
  expect(report.crashes).toHaveLength(2 * report.commits);
  const kinds = new Set(report.crashes.map((point) => point.slice(0, point.indexOf("#"))));
  expect([...kinds].toSorted()).toEqual(["change", "claim", "record", "settle", "submit"]);
});

test.each([
  ["an effect outside of a step", "it is printed at most once"],
  ["a step without a key", "it is booked once"],
] as const)("a handler with %s is found with the crash point that repeats it", async (title, invariant) => {
  const bug = title.slice(title.indexOf(" ") + 1) as Bug;
  const error = await simulate(ordering(bug)).catch((thrown: unknown) => thrown as Error);
  expect(error).toMatchObject({ code: "simulation-failed" });
  const { message } = error as Error;
  expect(message).toContain(`the invariant "${invariant}" is broken after a crash at`);
  const crashAt = /crashAt: "([^"]+)"/.exec(message)?.[1] as string;
  await expect(simulate({ ...ordering(bug), crashAt })).rejects.toThrow(message);
  expect(await simulate({ ...ordering(), crashAt })).toMatchObject({ crashes: [crashAt] });
});

test("a plain job whose attempt is lost runs again within the same drain, and an effect of its own is found twice", async () => {
  const mail = job<string>("mail");
  const found = await simulate({
    world: (): string[] => [],
    handlers: (sent) => [handler(mail, ({ input }) => void sent.push(input))],
    async scenario(t) {
      await t.enqueue(mail, "hello");
      await t.drain();
      expect(t.completed(mail)).toHaveLength(1);
    },
    invariants: { "one mail is sent": (_, sent) => expect(sent).toEqual(["hello"]) },
  }).catch((error: unknown) => error as Error);
  expect((found as Error).message).toMatch(
    /^simulate: the invariant "one mail is sent" is broken after a crash at "settle#1 before"/,
  );
});

test("the crashes of a long scenario are spread over its crash points, and the report says how many were left out", async () => {
  const report = await simulate({ ...ordering(), maxCrashes: 3 });
  expect(report.crashes).toHaveLength(3);
  expect(report.skipped).toBe(2 * report.commits - 3);
});

test("a scenario that fails without a crash says so, and an unknown crash point is refused", async () => {
  const failing: SimulateOptions<World> = {
    ...ordering(),
    scenario: () => Promise.reject(new Error("no bank")),
  };
  await expect(simulate(failing)).rejects.toThrow("the scenario failed without a crash: no bank");
  await expect(simulate({ ...ordering(), crashAt: "settle#99 after" })).rejects.toThrow("was not reached");
  for (const wrong of [{ crashAt: "settle 3" }, { maxCrashes: 0 }, { invariants: {} }, { colour: "red" }])
    await expect(simulate({ ...ordering(), ...wrong } as never)).rejects.toMatchObject({
      code: "invalid-option",
    });
});
