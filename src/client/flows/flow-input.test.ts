// Flows that cannot work are refused with a stable code before anything is written.
import { describe, expect, test } from "vitest";
import { join, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { flow } from "../../engine/flows/flow.ts";
import type { Flow } from "../../engine/flows/flow.ts";

const v = useVirtualMill();

const anything = job<unknown>("anything");
const letters = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `t${at}`);
const perKey = limit("per key", { perKey: { concurrency: 1 } });
/** Jobs with a property that is computed from their input. */
const keyedByInput = [
  job<{ key: string }>("grouped", { group: ({ key }) => `of ${key}` }),
  job<{ key: string }>("unique", { unique: { fields: ["key"] } }),
  job<{ key: string }>("limited", { limits: [perKey.use({ key: (input) => `of ${input.key}` })] }),
];

const refusal = async (build: (given: Flow) => unknown): Promise<unknown> => {
  const given = flow("wrong");
  try {
    build(given);
    await v.run(v.mill.submit(given));
    return "taken";
  } catch (error) {
    const { jobs } = await v.run(v.store.findJobs({ filter: {}, max: 1, scanMax: 10, cursor: null }));
    return jobs.length === 0 ? (error as { code?: string }).code : "something was written";
  }
};

describe("a flow is refused", () => {
  test.each<[string, string, (given: Flow) => unknown]>([
    ["without a node", "invalid-flow", () => undefined],
    ["with a cycle of one node", "invalid-flow", (f) => f.add("a", step, "", { after: "a" })],
    [
      "with a cycle of two nodes",
      "invalid-flow",
      (f) => (f.add("a", step, "", { after: "b" }), f.add("b", step, "", { after: "a" })),
    ],
    ["with a name that is a bigint", "invalid-name", (f) => f.add(5n as never, step, "")],
    ["with a map whose name is a symbol", "invalid-name", (f) => f.map(Symbol("m") as never, step, [""])],
    ["with a race whose name is a bigint", "invalid-name", (f) => f.race(5n as never, [step.with("")])],
    ["with a group whose name is a bigint", "invalid-name", (f) => f.group(5n as never, [step.with("")])],
    [
      "with a chain whose name is a symbol",
      "invalid-name",
      (f) => f.chain(Symbol("c") as never, [step.with("")]),
    ],
    ["with a flow inside whose name is a bigint", "invalid-name", (f) => f.sub(5n as never, flow("inner"))],
    ["with a duplicate name", "invalid-flow", (f) => (f.add("a", step, ""), f.add("a", step, ""))],
    ["with an edge to an unknown node", "invalid-flow", (f) => f.add("a", step, "", { after: "ghost" })],
    [
      "with a duplicate edge",
      "invalid-flow",
      (f) => f.add("b", step, "", { after: [f.add("a", step, ""), "a"] }),
    ],
    [
      "with a join that needs more nodes than there are",
      "invalid-flow",
      (f) => f.add("b", step, "", { after: f.add("a", step, ""), join: 2 }),
    ],
    [
      "with a race that needs more winners than it has jobs",
      "invalid-flow",
      (f) => f.race("r", [step.with("")], { first: 2 }),
    ],
    [
      "with the result of another flow",
      "invalid-flow",
      (f) => f.add("b", join, { parts: [flow("other").add("a", step, "").result] }),
    ],
    [
      "with the result of a node whose failure it waits for",
      "invalid-flow",
      (f) => {
        const a = f.add("a", step, "");
        f.add("b", join, { parts: [a.result] }, { afterFailureOf: a });
      },
    ],
    [
      "with the result of a node that its join may go on without",
      "invalid-flow",
      (f) => {
        const [a, b] = [f.add("a", step, ""), f.add("b", step, "")];
        f.add("c", join, { parts: [a.result] }, { after: [a, b], join: "any" });
      },
    ],
    [
      "with a result beside a join of others",
      "invalid-flow",
      (f) => {
        const [a, b, c] = [f.add("a", step, ""), f.add("b", step, ""), f.add("c", step, "")];
        f.add("d", join, { parts: [c.result] }, { after: [a, b], join: 2 });
      },
    ],
    [
      "with a result that is not kept",
      "invalid-flow",
      (f) => f.add("b", join, { parts: [f.add("a", step, "", { keepResult: false }).result] }),
    ],
    [
      "with the results of a map that keeps none",
      "invalid-flow",
      (f) => f.add("b", join, { parts: f.map("a", step, ["x"], { keepResult: false }).results }),
    ],
    [
      "with the results of a race one of whose jobs keeps none",
      "invalid-flow",
      (f) => {
        const jobs = [step.with("x"), step.with("y", { keepResult: false })];
        f.add("b", join, { parts: f.race("a", jobs).results });
      },
    ],
    [
      "with an edge to a node of another flow, although one of its own has the same name",
      "invalid-flow",
      (f) => {
        f.add("a", step, "");
        f.add("b", step, "", { after: flow("other").add("a", step, "") });
      },
    ],
    [
      "with a map over something other than a list",
      "invalid-option",
      (f) => f.map("a", step, "abc" as never),
    ],
    [
      "with a map of 100,000 items",
      "invalid-flow",
      (f) => f.map("a", step, Array.from({ length: 100_000 }, String)),
    ],
    ["with a name with a dot", "invalid-name", (f) => f.add("a.b", step, "")],
    ["with a name of 300 bytes", "invalid-name", (f) => f.add("n".repeat(300), step, "")],
    ...[{ priority: "some" }, { delay: "soon" }, { priority: 1n }, { tags: letters(16) }, { id: "mine" }].map(
      (options): [string, string, (given: Flow) => unknown] => [
        `with a map whose option ${Object.keys(options)[0]} is wrong`,
        "delay" in options ? "invalid-duration" : "invalid-option",
        (f) => f.map("a", step, ["x"], options as never),
      ],
    ),
    ["with an id in a group", "invalid-option", (f) => f.group("a", [step.with("x", { id: "mine" })])],
    [
      "with an edge in a race",
      "invalid-option",
      (f) => f.race("a", [step.with("x", { after: "b" } as never)]),
    ],
    [
      "with cancelRest but nothing to cancel",
      "invalid-flow",
      (f) => f.add("a", step, "", { cancelRest: true }),
    ],
    [
      "with a result in a Map",
      "invalid-flow",
      (f) => f.add("b", anything, new Map([["a", f.add("a", step, "").result]])),
    ],
    [
      "with a text made of a result",
      "invalid-flow",
      // oxlint-disable-next-line restrict-template-expressions -- this is the mistake that is refused
      (f) => f.add("b", step, `${f.add("a", step, "").result}`),
    ],
    [
      "with a copy of a result",
      "invalid-flow",
      (f) => f.add("b", anything, { ...f.add("a", step, "").result }),
    ],
    [
      "with a result that is not among those of the inner flow",
      "invalid-flow",
      (f) => {
        const inner = flow("inner");
        inner.add("last", step, "", { after: inner.add("first", step, "") });
        f.add("b", anything, f.sub("sub", inner).result["first"]);
      },
    ],
    ...keyedByInput.map((keyed): [string, string, (given: Flow) => unknown] => [
      `${keyed.name} by a result`,
      "invalid-flow",
      (f) => f.add("b", keyed, { key: f.add("a", step, "").result }),
    ]),
    ["that is part of itself", "invalid-flow", (f) => f.sub("self", f)],
    ["with an unknown option", "invalid-option", (f) => f.add("a", step, "", { afterwards: "b" } as never)],
    ["with an id for a node", "invalid-option", (f) => f.add("a", step, "", { id: "mine" } as never)],
  ])("%s", async (_, code, build) => {
    expect(await refusal(build)).toBe(code);
  });

  test("with 100,001 nodes", async () => {
    const tooMany = (f: Flow): void => {
      for (let at = 0; at <= 100_000; at++) f.add(`n${at}`, step, "");
    };
    expect(await refusal(tooMany)).toBe("invalid-flow");
  });

  test("with a name of its own of 300 bytes, or if it is not a flow", async () => {
    expect(() => flow("f".repeat(300))).toThrow(expect.objectContaining({ code: "invalid-name" }));
    await expect(v.run(v.mill.submit({} as never))).rejects.toMatchObject({ code: "invalid-option" });
  });
});
