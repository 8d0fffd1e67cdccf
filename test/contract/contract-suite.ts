/**
 * The contract that every store keeps, as sentences. A store's test file calls `describeStoreContract` with a way to
 * open a fresh store; each case gets its own. Behind every case two things must hold whatever it did: the state counts
 * equal a recount (invariant 50) and an audit finds nothing to repair.
 *
 * A store that cannot keep a case names it with the reason, and the report shows it as skipped; a name that no case has
 * fails. So does a store that runs only some groups because all of them run on a faster one of its kind.
 */
import { describe, expect, test } from "vitest";
import type { Platform } from "../../src/platform/platform.ts";
import type { Store } from "../../src/store/store.ts";
import { withoutGates } from "../../src/store/state-counts.ts";
import { createHeldPlatform } from "../support/virtual/held-platform.ts";
import { auditAll, findAll, recount, sortStateCounts } from "../support/walk.ts";
import { capabilityCases } from "./cases/capability-cases.ts";
import { changeCases } from "./cases/change-cases.ts";
import { claimCases } from "./cases/claim-cases.ts";
import { heartbeatCases } from "./cases/documents/heartbeat-cases.ts";
import { frameCases } from "./cases/frame-cases.ts";
import { flowCases } from "./cases/flow-cases.ts";
import { flowGrowthCases } from "./cases/flow-growth-cases.ts";
import { wideFlowCases } from "./cases/wide-flow-cases.ts";
import { gateCases } from "./cases/gate-cases.ts";
import { counterCases } from "./cases/documents/counter-cases.ts";
import { docCases } from "./cases/documents/doc-cases.ts";
import { promoteCases, readDueCases } from "./cases/due-cases.ts";
import { describeCases, hintCases } from "./cases/hint-cases.ts";
import { expectSameAnswers, hostileNames } from "./cases/text/hostile-names.ts";
import { journalCases } from "./cases/durable/journal-cases.ts";
import { laneCases } from "./cases/lane-cases.ts";
import { laneHoldCases } from "./cases/lane-hold-cases.ts";
import { extendCases, recordCases } from "./cases/lease-cases.ts";
import { clockCases, feedCases, findCases, countCases } from "./cases/look-cases.ts";
import { roundCases } from "./cases/durable/round-cases.ts";
import { settleCases } from "./cases/settle-cases.ts";
import { submitCases } from "./cases/submit-cases.ts";
import { suspendCases } from "./cases/durable/suspend-cases.ts";
import { emitCases } from "./cases/emit-cases.ts";
import { textCases } from "./cases/text/text-cases.ts";
import { uniqueCases } from "./cases/unique-cases.ts";
import { auditCases, pruneCases } from "./cases/upkeep-cases.ts";
import { createSubject } from "./subject.ts";
import type { ContractGroup } from "./subject.ts";
import { describeVectors } from "./vectors.ts";

/** In the order of a job's life. */
const groups: readonly ContractGroup[] = [
  submitCases,
  uniqueCases,
  claimCases,
  capabilityCases,
  gateCases,
  laneCases,
  laneHoldCases,
  settleCases,
  extendCases,
  recordCases,
  frameCases,
  changeCases,
  journalCases,
  suspendCases,
  roundCases,
  flowCases,
  flowGrowthCases,
  wideFlowCases,
  promoteCases,
  readDueCases,
  docCases,
  counterCases,
  heartbeatCases,
  findCases,
  textCases,
  countCases,
  feedCases,
  emitCases,
  clockCases,
  pruneCases,
  auditCases,
  hintCases,
  describeCases,
];

export type OpenStore = (options: { readonly platform: Platform }) => Promise<Store>;

/** The groups that run, and why the others do not. */
export interface ContractPart {
  readonly groups: readonly string[];
  readonly why: string;
}

const [hostileGroup, vectorGroup] = ["hostile names", "vectors"];

export function describeStoreContract(
  name: string,
  open: OpenStore,
  skips: Readonly<Record<string, string>> = {},
  part: ContractPart | null = null,
): void {
  const runs = (about: string): boolean => {
    if (part === null || part.groups.includes(about)) return true;
    test(`${about} (skipped: ${part.why})`, ({ skip }) => {
      expect(part.why.length).toBeGreaterThan(10);
      skip(part.why);
    });
    return false;
  };
  describe(`${name} keeps the store contract`, () => {
    for (const group of groups) {
      if (!runs(group.about)) continue;
      describe(`${group.about}`, () => {
        for (const [title, run] of group.cases) {
          const reason = Object.hasOwn(skips, title) ? skips[title] : undefined;
          const why = reason === undefined ? "" : ` (skipped: ${reason})`;
          test(`${title}${why}`, async ({ skip }) => {
            if (reason !== undefined) return skip(reason);
            const platform = createHeldPlatform();
            const store = await open({ platform });
            try {
              await run(createSubject(store, platform));
              expect(sortStateCounts(withoutGates(await store.countJobs()))).toEqual(
                recount(await findAll(store)),
              );
              expect(await auditAll(store)).toEqual({});
            } finally {
              await store.close();
            }
          });
        }
      });
    }

    describe(`${hostileGroup}`, () => {
      for (const hostile of runs(hostileGroup) ? hostileNames : []) {
        test(`${JSON.stringify(hostile.slice(0, 50))} works like a plain one`, async () => {
          const opened: Store[] = [];
          const openFresh = async (): Promise<Store> => {
            const store = await open({ platform: createHeldPlatform() });
            opened.push(store);
            return store;
          };
          await expectSameAnswers(hostile, openFresh, openFresh);
          for (const store of opened) await store.close();
        });
      }
    });

    if (runs(vectorGroup)) describeVectors(open);

    test("every skip names a case, every part a group, and gives a reason", () => {
      const names = [...groups.map(({ about }) => about), hostileGroup, vectorGroup];
      for (const about of part?.groups ?? []) expect(names).toContain(about);
      const titles = groups.flatMap(({ cases }) => cases.map(([title]) => title));
      for (const [title, reason] of Object.entries(skips)) {
        expect(titles).toContain(title);
        expect(reason.length).toBeGreaterThan(10);
      }
      expect(new Set(titles).size).toBe(titles.length);
    });
  });
}
