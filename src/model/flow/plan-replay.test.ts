/** Replays by property: random flows that have ended somehow, and what comes back of them in which order. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isTerminal } from "../job/job-state.ts";
import type { JobState } from "../job/job-state.ts";
import { planReplay } from "./plan-replay.ts";
import type { Member, ReplayPlan } from "./plan-replay.ts";

const onSuccess = "1u";
const toFlow = "v0";

function member(
  path: string,
  state: JobState,
  to: readonly string[] = [],
  given: Partial<Member> = {},
): Member {
  const edges = [toFlow, ...to.map((target) => onSuccess + target)];
  return {
    ...{ path, state, rev: 1, isPart: false, isCapped: false, within: "", edges, parents: [] },
    ...{ hasCancelledRest: false, hasCancelledParents: false, isUnfreed: false },
    ...given,
  };
}
const flowOf = (state: JobState): Member => ({ ...member("", state), isPart: true, within: null, edges: [] });
const membersOf = (...list: readonly Member[]): ReadonlyMap<string, Member> =>
  new Map(list.map((each) => [each.path, each]));
const paths = (marked: ReplayPlan["runs"]): readonly string[] => marked.map(([path]) => path);

const states = fc.constantFrom<JobState>(
  "completed",
  "failed",
  "cancelled",
  "expired",
  "skipped",
  "blocked",
  "running",
);
/** Nodes n0..., each with edges to later ones. Every third may stand in a part. */
const flows = fc
  .array(fc.record({ state: states, to: fc.array(fc.nat(), { maxLength: 3 }), isInner: fc.boolean() }), {
    minLength: 1,
    maxLength: 12,
  })
  .map((shapes) => {
    const list = shapes.map(({ state, to, isInner }, at) => {
      const later = shapes.length - at - 1;
      const targets = later === 0 ? [] : [...new Set(to.map((each) => `n${at + 1 + (each % later)}`))];
      return isInner && at % 3 === 0
        ? [
            member(`n${at}`, state, targets, { isPart: true }),
            member(`n${at}.x`, state, [], { within: `n${at}` }),
          ]
        : [member(`n${at}`, state, targets)];
    });
    // An edge to a part leads to the nodes inside of it.
    const isPart = new Set(list.flat().flatMap((each) => (each.isPart ? [each.path] : [])));
    const entered = list.flat().map((each) => ({
      ...each,
      edges: each.edges.map((edge) => (isPart.has(edge.slice(2)) ? `${edge}.x` : edge)),
    }));
    return membersOf(flowOf("failed"), ...entered);
  });

const targetsOf = ({ within, edges }: Member): readonly string[] =>
  edges.slice(1).map((edge) => (within === "" ? "" : `${within}.`) + edge.slice(2));

describe("a replay", () => {
  test("runs what failed or expired, and lets what was skipped behind it wait again", () => {
    const members = membersOf(
      flowOf("failed"),
      member("a", "failed", ["b"]),
      member("b", "skipped", ["c"]),
      member("c", "skipped"),
      member("other", "completed", ["c"]),
    );
    const plan = planReplay(members, { withRest: false });
    expect(paths(plan.runs)).toEqual(["a"]);
    expect(paths(plan.steps)).toEqual(["", "b", "c"]);
    expect(plan.waits).toBe(2);
  });

  test("runs again what has run only where that is asked for", () => {
    const members = membersOf(flowOf("completed"), member("a", "completed", ["b"]), member("b", "completed"));
    expect(paths(planReplay(members, { nodes: ["a"], withRest: false }).steps)).toEqual([""]);
    expect(paths(planReplay(members, { nodes: ["a"], withRest: true }).steps)).toEqual(["", "b"]);
  });

  test("lets one that failed behind another that failed wait for it", () => {
    const members = membersOf(flowOf("failed"), member("a", "failed", ["b"]), member("b", "failed"));
    const plan = planReplay(members, { withRest: false });
    expect(paths(plan.runs)).toEqual(["a"]);
    expect(paths(plan.steps)).toEqual(["", "b"]);
  });

  test("opens parts the inner ones first, and none before something in it lives", () => {
    const members = membersOf(
      flowOf("failed"),
      member("p", "failed", [], { isPart: true }),
      member("p.q", "failed", [], { isPart: true, within: "p" }),
      member("p.q.a", "failed", [], { within: "p.q" }),
      member("s", "skipped", [], { isPart: true }),
      member("s.x", "skipped", [], { within: "s" }),
    );
    const [a] = [members.get("p.q.a") as Member];
    const linked = new Map(members)
      .set("p.q.a", a)
      .set("p", { ...(members.get("p") as Member), edges: [toFlow, "1us.x"] });
    const plan = planReplay(linked, { withRest: false });
    expect(paths(plan.runs)).toEqual(["p.q.a"]);
    expect(paths(plan.steps)).toEqual(["p.q", "p", "", "s.x", "s"]);
  });

  test("of any flow takes each node behind all that lead to it, and runs none that another leads to", () => {
    fc.assert(
      fc.property(flows, fc.boolean(), (members, withRest) => {
        const { blocks, runs, steps, waits } = planReplay(members, { withRest });
        const order = [...paths(runs), ...paths(steps)];
        const blocked = [...members.values()].filter(({ path, state, isPart }) => {
          return state === "blocked" && !isPart && order.includes(path);
        });
        expect(new Set(paths(blocks))).toEqual(new Set(blocked.map(({ path }) => path)));
        expect(new Set(order).size).toBe(order.length);
        expect(paths(steps).filter((path) => members.get(path)?.isPart === false)).toHaveLength(waits);
        for (const path of paths(runs)) expect(isTerminal((members.get(path) as Member).state)).toBe(true);
        for (const path of order) {
          const own = members.get(path) as Member;
          for (const target of targetsOf(own)) {
            if (!order.includes(target)) continue;
            expect(paths(runs), `${target} runs beside ${path}`).not.toContain(target);
            expect(order.indexOf(target), `${target} before ${path}`).toBeGreaterThan(order.indexOf(path));
          }
          // Whatever it stands in goes on, and has a node that lives by then.
          for (let at = own.within; at !== null; at = (members.get(at) as Member).within)
            expect(order).toContain(at);
          if (own.isPart)
            expect(
              order.slice(0, order.indexOf(path)).some((other) => members.get(other)?.within === path),
            ).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("of a whole large flow is planned at once", () => {
    const size = 20_000;
    const list = Array.from({ length: size }, (_, at) =>
      member(`n${at}`, "completed", at + 1 < size ? [`n${at + 1}`] : []),
    );
    const plan = planReplay(membersOf(flowOf("completed"), ...list), {
      nodes: list.map(({ path }) => path),
      withRest: true,
    });
    expect(paths(plan.runs)).toEqual(["n0"]);
    expect(plan.waits).toBe(size - 1);
  });
});

test("a node that a handler has made to wait for more waits for that again", () => {
  const members = membersOf(
    flowOf("failed"),
    member("a", "failed", ["end"]),
    member("grown", "completed", ["end"]),
    member("end", "skipped", [], { parents: [`${onSuccess}a`] }),
  );
  expect(planReplay(members, { withRest: false }).added).toEqual({ end: [`${onSuccess}grown`] });
});
