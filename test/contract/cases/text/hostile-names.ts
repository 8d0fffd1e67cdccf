/**
 * Hostile names behave exactly like plain ones: one script is run with both on two fresh stores, and the answers must
 * be equal once the names are put back.
 */
import { expect } from "vitest";
import type { Store } from "../../../../src/store/store.ts";
import {
  aChange,
  aClaim,
  aDoc,
  aJob,
  aRoute,
  aSettle,
  finish,
  replay,
  schedule,
} from "../../../support/builders.ts";
import { findAll, pruneAll, readAllDocs, readWholeFeed, sortStateCounts } from "../../../support/walk.ts";

export const hostileNames = [
  `quote"'\`quote`,
  "{brace} ${brace} %s ? ?1 :name @name $name",
  "__proto__",
  "constructor",
  "'; DROP TABLE millrace_job; --",
  "a:b/c\\d|e\tf".replace("\t", " "),
  "%_*[a-z]",
  "  leading and trailing  ",
  "🙂 名前 ünï",
  "n".repeat(255),
  "null",
  "-1",
] as const;

/** Nine names from one: alike, but different. */
type Names = Readonly<
  Record<"queue" | "name" | "id" | "other" | "key" | "tag" | "doc" | "owner" | "text", string>
>;
const parts = ["queue", "name", "id", "other", "key", "tag", "doc", "owner", "text"] as const;

export function namesFrom(base: string): Names {
  const cut = base.length > 250 ? base.slice(0, 250) : base;
  return Object.fromEntries(parts.map((part, index) => [part, `${cut}${index}`])) as Names;
}

async function script(store: Store, names: Names): Promise<unknown[]> {
  const { queue, name, id, other, key, tag, doc, owner, text } = names;
  const unique = { key, hold: "end", onHeld: "replace" } as const;
  const job = aJob({
    id,
    queue,
    name,
    tags: [tag],
    input: text,
    meta: text,
    policy: text,
    digest: text,
    unique,
  });
  const answers: unknown[] = [];
  answers.push(
    await store.submit([{ jobs: [job], docs: [aDoc(doc, text, { kind: tag })] }, { jobs: [job] }]),
  );
  answers.push(
    await store.submit([{ jobs: [aJob({ id: other, queue, name, unique, tags: [tag, text], input: key })] }]),
  );
  const claimed = await store.claim(
    aClaim({ owner, offers: [{ routes: [aRoute({ queue, name })], max: 5 }] }),
  );
  answers.push(claimed);
  const [leased] = claimed.jobs;
  answers.push(await store.recordIfLeased([{ ...leased!, progress: text, logs: [text, tag] }]));
  answers.push(await store.readLogs({ id, after: 0, max: 9 }));
  answers.push(await store.extendIfLeased({ owner, leaseMs: 500, leases: [], wantsOthers: true }));
  const effects = {
    jobs: [aJob({ id: other, queue: name, name: queue, input: key })],
    docs: [aDoc(doc, key, { kind: tag })],
  };
  answers.push(
    await store.settleIfLeased([
      aSettle(leased!, finish("failed", { reason: text, result: text }), { effects, attempts: text }),
    ]),
  );
  answers.push(
    await findAll(store),
    await findAll(store, { queue }),
    await findAll(store, { name: queue }),
    await findAll(store, { tag }),
  );
  answers.push(
    await findAll(store, { reason: text }),
    await readAllDocs(store, tag, doc.slice(0, 1)),
    sortStateCounts(await store.countJobs()),
  );
  answers.push(
    await store.changeIf([aChange(id, ["failed"], replay()), aChange(other, ["ready"], schedule(5))]),
  );
  answers.push(await store.changeIf([aChange(id, ["ready"], finish("cancelled", { reason: text }))]));
  answers.push(await store.readJobs([id, other]), await readWholeFeed(store));
  const history = { what: "history", outcome: "cancelled", olderThanMs: 0, max: 9, cursor: null } as const;
  answers.push(await pruneAll(store, { ...history, queue: null, exceptQueues: [queue] }));
  answers.push(await pruneAll(store, { ...history, queue, exceptQueues: [] }), await store.readJobs([id]));
  return answers;
}

export async function expectSameAnswers(
  hostile: string,
  openPlain: () => Promise<Store>,
  openHostile: () => Promise<Store>,
): Promise<void> {
  const plain = namesFrom("plain");
  const given = namesFrom(hostile);
  const expected = await script(await openPlain(), plain);
  const answers = await script(await openHostile(), given);
  const back = new Map<unknown, unknown>(parts.map((part) => [given[part], plain[part]]));
  for (const [queue, name] of [["queue", "name"] as const, ["name", "queue"] as const])
    back.set(
      aRoute({ queue: given[queue], name: given[name] }),
      aRoute({ queue: plain[queue], name: plain[name] }),
    );
  expect(rename(answers, back)).toEqual(rename(expected, new Map()));
}

/** Notes are left out: which texts are short enough for one depends on the name (emit-cases.ts). */
function rename(value: unknown, names: ReadonlyMap<unknown, unknown>): unknown {
  if (typeof value === "string" || typeof value === "number") return names.get(value) ?? value;
  if (Array.isArray(value)) return value.map((item) => rename(item, names));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([key]) => key !== "note");
  return Object.fromEntries(entries.map(([key, item]) => [key, rename(item, names)]));
}
