/**
 * Random durable handlers: sequences of steps, waits, sleeps, plain awaits, patches, parallel branches, races, lists
 * and choices that depend on what was observed. A program is drawn once and interpreted in every life of its run.
 * Whatever the handler learns it observes, so that two lives can be compared.
 */
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { AnyJob } from "../../src/engine/submit/job-definition.ts";
import type { Step } from "../../src/worker/durable/step.ts";

export type Statement =
  | { readonly kind: "step"; readonly site: number; readonly name: string; readonly fails: number }
  | { readonly kind: "plain"; readonly turns: number }
  /** Takes another while in every life. */
  | { readonly kind: "io" }
  | { readonly kind: "patch"; readonly site: number }
  | { readonly kind: "uuid"; readonly site: number }
  | {
      readonly kind: "wait";
      readonly site: number;
      readonly signal: "x" | "y";
      readonly timeoutMs: number | null;
      readonly parity: 0 | 1 | null;
    }
  | { readonly kind: "approval"; readonly site: number; readonly of: number; readonly timeoutMs: number }
  | { readonly kind: "sleep"; readonly site: number; readonly ms: number }
  | { readonly kind: "invoke"; readonly site: number; readonly name: string }
  | { readonly kind: "all"; readonly site: number; readonly blocks: readonly Block[] }
  | { readonly kind: "race"; readonly site: number; readonly blocks: readonly Block[] }
  | {
      readonly kind: "each";
      readonly site: number;
      readonly items: number;
      readonly atOnce: number;
      readonly block: Block;
    }
  | { readonly kind: "choice"; readonly yes: Block; readonly no: Block };
export type Block = readonly Statement[];

/**
 * With plain I/O the order of parallel branches differs from life to life. Such programs run them by `each`, which
 * gives each a scope of its own, and do not let one depend on another.
 */
export function drawProgram(random: SeededRandom, hasIo = false): Block {
  let site = 0;
  // Few names, so that parallel branches share them.
  const name = (): string => (hasIo ? `own ${site}` : random.pick(["a", "b", "c"]));
  const block = (depth: number, most: number): Block =>
    Array.from({ length: random.whole(1, most) }, () => statement(depth));
  const statement = (depth: number): Statement => {
    const own = ++site;
    const drawn = random.whole(1, depth > 0 ? 24 : 15);
    if (drawn <= 5) return { kind: "step", site: own, name: name(), fails: random.chance(0.2) ? 0.4 : 0 };
    if (drawn <= 6) return hasIo ? { kind: "io" } : { kind: "plain", turns: random.whole(1, 4) };
    if (drawn <= 8) return { kind: "patch", site: own };
    if (drawn === 9) return hasIo ? { kind: "io" } : { kind: "uuid", site: own };
    if (drawn <= 12) {
      const signal = random.pick(["x", "y"] as const);
      const timeoutMs = random.chance(0.6) ? random.whole(0, 90) : null;
      const parity = random.chance(0.3) ? random.pick([0, 1] as const) : null;
      return { kind: "wait", site: own, signal, timeoutMs, parity };
    }
    if (drawn === 13) return { kind: "sleep", site: own, ms: random.whole(0, 60) };
    if (drawn === 14) return { kind: "invoke", site: own, name: name() };
    if (drawn === 15)
      return { kind: "approval", site: own, of: random.whole(1, 2), timeoutMs: random.whole(10, 200) };
    if (drawn <= 18)
      return {
        kind: "all",
        site: own,
        blocks: [block(depth - 1, 3), block(depth - 1, 3), block(depth - 1, 2)],
      };
    if (drawn <= 21) return { kind: "race", site: own, blocks: [block(depth - 1, 2), block(depth - 1, 3)] };
    if (drawn <= 23)
      return {
        ...{ kind: "each", site: own, items: random.whole(1, 4), atOnce: random.whole(1, 3) },
        block: block(depth - 1, 2),
      };
    if (hasIo) return { kind: "io" };
    return { kind: "choice", yes: block(depth - 1, 2), no: block(depth - 1, 2) };
  };
  return block(2, 5);
}

export interface Signals {
  x: number;
  y: number;
  ok: { ok: boolean };
}

/** What a life of the run shows to the outside. */
export interface Life {
  observe(what: string): void;
  /** Plain I/O, which the run knows nothing of. */
  io(): Promise<void>;
  /** The code of a step runs; the answer differs every time. */
  work(key: string, fails: number): Promise<string>;
}

export async function interpret(
  program: Block,
  step: Step<Signals>,
  life: Life,
  hasIo: boolean,
): Promise<string[]> {
  // Shared by all branches: the order of the branches decides the names of later steps.
  let shared = 0;
  let learnt = 0;
  const results: string[] = [];
  // What is answered at once is marked: nobody sees it if it follows an answer of `patched` that is not durable.
  const learn = (site: number, value: string, mark = ""): void => {
    life.observe(`${mark}${site}:${value}`);
    results.push(`${site}:${value}`);
    for (let at = 0; at < value.length; at++) learnt = (learnt * 31 + value.charCodeAt(at)) | 0;
  };
  const runBlock = async (block: Block): Promise<void> => {
    for (const each of block) await runOne(each);
  };
  const runOne = async (each: Statement): Promise<void> => {
    switch (each.kind) {
      case "step": {
        const name = shared++ % 3 === 0 && !hasIo ? "shared" : each.name;
        try {
          const retry = { attempts: 2, backoff: { kind: "exponential", from: 20, jitter: "full" } } as const;
          learn(each.site, await step.run(name, (s) => life.work(s.idempotencyKey, each.fails), { retry }));
        } catch (error) {
          learn(each.site, `failed ${(error as Error).message}`);
        }
        return;
      }
      case "plain":
        for (let turn = 0; turn < each.turns; turn++) await Promise.resolve();
        return;
      case "io":
        await life.io();
        return;
      case "patch":
        life.observe(`?${each.site}:${step.patched(`patch ${each.site}`)}`);
        return;
      case "uuid":
        learn(each.site, `${step.uuid()} ${step.now().getTime()}`, "?");
        return;
      case "wait": {
        const { parity, timeoutMs } = each;
        const where = parity === null ? {} : { where: (value: number) => value % 2 === parity };
        const got =
          timeoutMs === null
            ? await step.waitFor(each.signal, where)
            : await step.waitFor(each.signal, { ...where, timeout: timeoutMs, onTimeout: "return" });
        learn(each.site, got.kind === "arrived" ? `got ${got.value}` : "late");
        return;
      }
      case "approval": {
        const { approved, answers } = await step.approval("ok", { of: each.of, timeout: each.timeoutMs });
        learn(each.site, `${approved} by ${answers.map(({ source }) => source).join()}`);
        return;
      }
      case "sleep":
        await step.sleep(`sleep ${each.site}`, each.ms);
        learn(each.site, "slept");
        return;
      case "invoke":
        try {
          learn(each.site, JSON.stringify(await step.invoke({ name: `job ${each.name}` } as AnyJob, null)));
        } catch (error) {
          learn(each.site, `failed ${(error as Error).message}`);
        }
        return;
      case "all":
        if (hasIo)
          await step.each(`all ${each.site}`, [...each.blocks.keys()], String, (at) =>
            runBlock(each.blocks[at] as Block),
          );
        else await Promise.all(each.blocks.map(runBlock));
        return;
      case "race": {
        const branches = Object.fromEntries(
          each.blocks.map((block, at) => [`branch ${at}`, async () => runBlock(block)]),
        );
        const { winner } = await step.race(branches);
        learn(each.site, `won by ${winner}`);
        return;
      }
      case "each": {
        const items = Array.from({ length: each.items }, (_, at) => `i${at}`);
        const options = { concurrency: each.atOnce };
        await step.each(
          `each ${each.site}`,
          items,
          (item) => item,
          () => runBlock(each.block),
          options,
        );
        return;
      }
      case "choice":
        await runBlock(learnt % 2 === 0 ? each.yes : each.no);
    }
  };
  await runBlock(program);
  return hasIo ? results.toSorted() : results;
}
