// A worker in a process of its own, to be killed: its handler, in a child process, spins for ever. Says the child's
// number. With arguments (run, two files) its handler starts processes that write their numbers into the files.
import { fileHandler, Millrace } from "millrace";
import { everything } from "./handlers/jobs.ts";
import { handlerFile } from "./handlers/file.ts";

const mill = await Millrace.open("sqlite::memory:", { log: false });
const [asked, ...files] = process.argv.slice(2);
const run = asked === "thread" ? "thread" : "process";
await mill.work([fileHandler(everything, { file: handlerFile("everything"), run, size: 1 })]);
if (files.length > 0) {
  await mill.enqueue(everything, { do: "children", value: files });
  await new Promise(() => {});
}
const where = await mill.enqueue(everything, { do: "where" });
const { pid } = (await where.result()) as { pid: number };
const { id } = await mill.enqueue(everything, { do: "spin" });
while ((await mill.jobs.get(id))?.state !== "running")
  await new Promise((resolve) => setTimeout(resolve, 10));
console.log(pid);
