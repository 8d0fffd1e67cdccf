// Handlers that do not run in the worker's own event loop: in a thread, in a child process, in a program of another
// language, and as commands.
import { fileURLToPath } from "node:url";
import { commandHandler, fileHandler, job, Millrace, programHandler } from "millrace";

const countPrimes = job<{ below: number }, number>("count-primes");
const countWords = job<{ text: string }, Record<string, number>>("count-words", { retry: { attempts: 1 } });
const sortLines = job<{ lines: string[] }, string[]>("sort-lines");

const mill = await Millrace.open("sqlite::memory:", { log: false });

await mill.work([
  // A CPU-bound loop in a thread: the worker goes on claiming, renewing and settling meanwhile. With run: "process" the
  // same file runs in a child process.
  fileHandler(countPrimes, { file: new URL("./sandbox/primes.ts", import.meta.url), run: "thread" }),
  // Children in Python, kept warm: one answers job after job.
  programHandler(countWords, {
    program: ["python3", fileURLToPath(new URL("./sandbox/count_words.py", import.meta.url))],
  }),
  // A command per job. No shell reads the arguments.
  commandHandler(
    sortLines,
    { allow: ["sort"], result: ({ stdout }) => stdout.trimEnd().split("\n") },
    ({ input }) => ({ argv: ["sort", "-r"], stdin: input.lines.join("\n") }),
  ),
]);

const primes = await mill.enqueue(countPrimes, { below: 100_000 });
console.log(`primes below 100000, counted in a thread: ${await primes.result()}`);

const words = await mill.enqueue(countWords, { text: "to be or not to be" });
console.log(`counted in Python: ${JSON.stringify(await words.result())}`);
console.log(`how many words, by the KV: ${await mill.kv.get<number>("last-counted")}`);

const empty = await mill.enqueue(countWords, { text: "" });
await empty.result().catch(() => {});
console.log(`nothing to count: ${(await mill.jobs.get(empty.id))?.reason}`);

const sorted = await mill.enqueue(sortLines, { lines: ["ash", "elm", "oak"] });
console.log(`sorted by a command: ${(await sorted.result()).join(" ")}`);

await mill.close();
