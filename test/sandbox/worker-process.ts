// A worker in a process of its own, to be killed: its handler, in a child process, spins for ever. Says the child's
// number.
import { fileHandler, Millrace } from "millrace";
import { everything } from "./handlers/jobs.ts";
import { handlerFile } from "./handlers/file.ts";

const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([fileHandler(everything, { file: handlerFile("everything"), run: "process", size: 1 })]);
const where = await mill.enqueue(everything, { do: "where" });
const { pid } = (await where.result()) as { pid: number };
const { id } = await mill.enqueue(everything, { do: "spin" });
while ((await mill.jobs.get(id))?.state !== "running")
  await new Promise((resolve) => setTimeout(resolve, 10));
console.log(pid);
