/**
 * `npm run bench`: Millrace beside its peers in the same run, or its engine alone. Results go to standard output,
 * progress to standard error. How it is measured and how to read it: docs/operating/benchmarks.md.
 */
import { readCommandLine, usage, UsageError } from "./command-line.ts";
import type { Asked } from "./command-line.ts";
import type { Result } from "./figures.ts";
import { planGroups } from "./plan.ts";
import type { Group } from "./plan.ts";
import { endAll, measureInProcess } from "./measure/processes.ts";
import { memoryTable, resultLine, resultTable } from "./report.ts";
import { runGroup } from "./run-group.ts";
import type { Scratch } from "./scratch/scratch.ts";
import { ScratchFiles } from "./scratch/scratch-files.ts";
import { settingLines } from "./settings.ts";

const memoryJobs = { full: 200_000, quick: 40_000 };
const memorySlots = 100;

function progress(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** In a hurry the idle workers sit in the background of everything else: a few calls a second disturb nobody. */
async function runAll(asked: Asked, scratch: Scratch): Promise<void> {
  const results: Result[] = [];
  const groups = planGroups(asked);
  const run = (group: Group) => runGroup(group, { asked, scratch, progress });
  const early = asked.isQuick ? groups.filter(({ work }) => work === "idle") : [];
  const idle = Promise.all(early.map(run));
  // Heard when its turn comes; until then a failure must not end the process from behind.
  idle.catch(() => {});
  for (const group of groups) {
    const found = early.includes(group) ? (await idle).flat() : await run(group);
    results.push(...found);
    if (asked.isJson) for (const result of found) console.log(resultLine(result));
  }
  if (asked.isJson) return;
  if (results.length > 0) console.log(`\n${settingLines(asked.store).join("\n")}\n\n${resultTable(results)}`);
  const wantsMemory = asked.only === "memory" || (asked.only === null && !asked.isQuick);
  if (asked.store === "sqlite" && wantsMemory) console.log(`\n${await measureMemory(asked, scratch)}`);
}

async function measureMemory(asked: Asked, scratch: Scratch): Promise<string> {
  const jobs = asked.jobs ?? (asked.isQuick ? memoryJobs.quick : memoryJobs.full);
  progress(`memory over ${jobs} jobs`);
  const outcome = await measureInProcess(
    {
      work: "memory",
      system: "millrace",
      store: "sqlite",
      place: await scratch.fresh(),
      mode: "plain",
      jobKind: "plain",
      concurrency: memorySlots,
      jobs,
      backlog: null,
      executor: asked.executor,
      idleSeconds: 0,
      isFleet: false,
      leadMs: 0,
    },
    asked.profileFolder,
  );
  if (outcome.kind !== "memory") throw new Error(`The memory run answered ${outcome.kind}.`);
  return memoryTable(outcome.report);
}

let scratch: Scratch | null = null;
process.on("exit", () => {
  endAll();
  scratch?.abandon();
});
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const)
  process.once(signal, () => process.exit(code));

async function openScratch({ store, objects, latencyMs }: Asked): Promise<Scratch> {
  // Drivers and servers are loaded only where they are used.
  if (store === "redis") return new (await import("./scratch/scratch-keys.ts")).ScratchKeys();
  if (store === "bucket") {
    const { ScratchBuckets } = await import("./scratch/scratch-buckets.ts");
    return new ScratchBuckets(objects, latencyMs);
  }
  if (store !== "postgres") return new ScratchFiles();
  const { ScratchDatabases } = await import("./scratch/scratch-databases.ts");
  return new ScratchDatabases();
}

try {
  const asked = readCommandLine(process.argv.slice(2));
  scratch = await openScratch(asked);
  await scratch.open();
  await runAll(asked, scratch);
  await scratch.close();
} catch (error) {
  if (error instanceof UsageError) console.error(`${error.message}\n\n${usage}`);
  else console.error(error instanceof Error ? error.message : error);
  process.exitCode = error instanceof UsageError ? 2 : 1;
  endAll();
  await scratch?.close();
}
