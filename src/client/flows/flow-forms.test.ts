// A flow in its plain form, and a flow that says what it returns.
import { describe, expect, test } from "vitest";
import { flowsOn, join, statesOf, step } from "../../../test/support/flow-steps.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { flow } from "../../engine/flows/flow.ts";
import { job } from "../../engine/submit/job-definition.ts";

const v = useVirtualMill();
const { begin, ended, toEnd } = flowsOn(v);
const coded = (code: string) => expect.objectContaining({ code });

describe("nodes and edges", () => {
  test("mean the same as the verbs of the builder", async () => {
    const plain = flow("plain", {
      failureMode: "collect",
      nodes: {
        first: step.with("1", { tags: ["own"] }),
        left: step.with("fail"),
        right: step.with("3"),
        once: { ...step.with("4"), join: "any", cancelRest: true },
        rescue: step.with("5"),
        last: step.with("6"),
      },
      edges: [
        { from: "first", to: "left" },
        { from: "first", to: "right", on: "success" },
        { from: "left", to: "once" },
        { from: "right", to: "once" },
        { from: "left", to: "rescue", on: "failure" },
        { from: "right", to: "rescue", on: "failure" },
        { from: "left", to: "last", on: "always" },
      ],
    });
    const built = flow("built", { failureMode: "collect" });
    built.add("first", step, "1", { tags: ["own"] });
    built.add("left", step, "fail", { after: "first" });
    built.add("right", step, "3", { after: "first" });
    built.add("once", step, "4", { after: ["left", "right"], join: "any", cancelRest: true });
    built.add("rescue", step, "5", { afterFailureOf: ["left", "right"] });
    built.add("last", step, "6", { always: "left" });
    const nodesOf = async (given: Parameters<typeof toEnd>[0]): Promise<readonly object[]> => {
      const { run, state } = await toEnd(given);
      expect(state).toBe("completed");
      return (await v.run(run.nodes())).map(({ name, after, join: need, state: end }) => ({
        name,
        after,
        need,
        end,
      }));
    };
    const nodes = await nodesOf(plain);
    expect(nodes).toEqual(await nodesOf(built));
    expect(nodes).toContainEqual(expect.objectContaining({ name: "once", need: { needs: 1, came: 1 } }));
    expect(nodes).toContainEqual(expect.objectContaining({ name: "rescue", end: "skipped" }));
  });

  test("results are those of the nodes whose success nothing waits for", async () => {
    const plain = flow("plain", {
      nodes: { a: step.with("1"), b: step.with("2"), c: step.with("3") },
      edges: [
        { from: "a", to: "b" },
        { from: "b", to: "c", on: "failure" },
      ],
    });
    const [run] = await begin(plain);
    expect(await v.run(run.result())).toEqual({ b: "2" });
    expect((await v.run(statesOf(run))).c).toBe("skipped");
  });

  test.each([
    [
      "an edge to a node that is not there",
      { nodes: { a: step.with("1") }, edges: [{ from: "a", to: "b" }] },
      "invalid-flow",
    ],
    [
      "an unknown end",
      { nodes: { a: step.with("1") }, edges: [{ from: "a", to: "a", on: "sometimes" }] },
      "invalid-option",
    ],
    [
      "an unknown option of an edge",
      { nodes: { a: step.with("1") }, edges: [{ from: "a", when: "x" }] },
      "invalid-option",
    ],
    ["edges without nodes", { edges: [{ from: "a", to: "b" }] }, "invalid-option"],
    ["a node that is no submission", { nodes: { a: 1 } }, "invalid-option"],
    ["a list of nodes", { nodes: [step.with("1")] }, "invalid-option"],
    ["a name with a dot", { nodes: { "a.b": step.with("1") } }, "invalid-name"],
  ])("%s is refused where it is built", (_what, options, code) => {
    expect(() => flow("plain", options as never)).toThrow(coded(code));
  });

  test("a cycle is refused by the submit, before anything is written", async () => {
    const circle = flow("circle", {
      nodes: { a: step.with("1"), b: step.with("2") },
      edges: [
        { from: "a", to: "b" },
        { from: "b", to: "a" },
      ],
    });
    await expect(v.run(v.mill.submit(circle))).rejects.toThrow(coded("invalid-flow"));
    expect((await v.run(v.mill.flows.list())).flows).toEqual([]);
  });
});

describe("what a flow returns", () => {
  test("is named by the flow, and may be the result of any node, of a chord, a chain or a map", async () => {
    const given = flow("returning");
    const first = given.add("first", step, "1");
    const all = given.map("all", step, ["2", "3"], { after: first });
    const chain = given.chain("chain", [step.with("4"), step.with("5")]);
    const chord = given.chord("chord", [step.with("6"), step.with("7")], join, (parts) => ({ parts }));
    const [run] = await begin(given.returns({ first, numbers: all, chain, chord }));
    expect(await v.run(run.result())).toEqual({ first: "1", numbers: ["2", "3"], chain: "5", chord: "6+7" });
  });

  test("without it, the last nodes stand under the names that chords and chains give them", async () => {
    const given = flow("plain");
    given.chain("chain", [step.with("4"), step.with("5")]);
    given.chord("chord", [step.with("6"), step.with("7")], join, (parts) => ({ parts }));
    const [run] = await begin(given);
    expect(await v.run(run.result())).toEqual({ "chain 2": "5", "chord last": "6+7" });
  });

  test("holds of a flow inside another one, and a reference to what it does not return is refused", async () => {
    const inner = flow("inner");
    const first = inner.add("first", step, "1");
    inner.add("second", step, "2", { after: first });
    const returning = inner.returns({ begin: first });
    const outer = flow("outer");
    outer.add("copy", step, outer.sub("inner", returning).result.begin);
    expect(await v.run((await begin(outer))[0].result())).toEqual({ copy: "1" });
    const wrong = flow("wrong");
    wrong.add("copy", step, (wrong.sub("inner", returning).result as { second?: never }).second!);
    await expect(v.run(v.mill.submit(wrong))).rejects.toThrow(coded("invalid-flow"));
  });

  test("a node that was skipped has no result; one that keeps none, or of another flow, is refused", async () => {
    const given = flow("rescued");
    const tried = given.add("tried", step, "1");
    const rescue = given.add("rescue", step, "2", { afterFailureOf: tried });
    const [run] = await begin(given.returns({ tried, rescue }));
    expect(await v.run(run.result())).toEqual({ tried: "1" });
    expect(await ended(run)).toBe("completed");
    const silent = flow("silent");
    const none = silent.add("none", job<string>("quiet"), "1", { keepResult: false });
    await expect(v.run(v.mill.submit(silent.returns({ none })))).rejects.toThrow(coded("invalid-flow"));
    expect(() => silent.returns({ tried })).toThrow(coded("invalid-flow"));
    expect(() => silent.returns({})).toThrow(coded("invalid-option"));
  });
});
