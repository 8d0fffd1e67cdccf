// What a handler wants to happen with its end: follow-up jobs and small documents. They become true in the same step as
// the completion, exactly once, and are thrown away when the attempt fails.
import { handler, job, Millrace } from "millrace";

const importFile = job<{ file: string }>("import-file", { retry: { attempts: 2, backoff: "50ms" } });
const notify = job<{ text: string }>("notify");

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.kv.put("imports", 0);

await mill.work([
  handler(importFile, async ({ input, attempt, kv, enqueue, whenFailed }) => {
    const imports = (await kv.get<number>("imports")) ?? 0;
    kv.put("imports", imports + 1);
    enqueue(notify, { text: `${input.file} is imported` });
    whenFailed.enqueue(notify, { text: `${input.file} could not be imported` });
    // Both effects above are dropped with this attempt; the next one makes them again.
    if (attempt === 1) throw new Error("the connection broke");
    if (input.file === "broken.csv") throw new Error("it is no CSV");
  }),
  handler(notify, ({ input }) => console.log(`notify: ${input.text}`)),
]);

for (const file of ["good.csv", "broken.csv"]) {
  const handle = await mill.enqueue(importFile, { file });
  await handle
    .result({ timeout: "5s" })
    .catch((error: Error) => console.log(error.message.replace(/^.*\(import/, "(import")));
}
for await (const note of mill.jobs.find({ name: "notify" }))
  await mill.handle(note.id).result({ timeout: "5s" });

console.log("imports:", await mill.kv.get("imports"));
const entry = await mill.kv.getEntry("imports");
await mill.kv.put("imports", 0, { version: entry?.version ?? 0 });
console.log("reset by compare and set:", await mill.kv.get("imports"));
await mill.close();
