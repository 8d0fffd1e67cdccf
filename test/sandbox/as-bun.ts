// Under a process that calls itself Bun: says with which code a worker is refused, for each kind of handler.
import { commandHandler, fileHandler, job, Millrace, programHandler } from "millrace";
import type { Handler } from "millrace";
import { everything } from "./handlers/jobs.ts";
import { handlerFile } from "./handlers/file.ts";

const file = handlerFile("everything");
const handlers: Readonly<Record<string, Handler>> = {
  thread: fileHandler(everything, { file, run: "thread", size: 1 }),
  inline: fileHandler(everything, { file, run: "inline" }),
  process: fileHandler(everything, { file, run: "process", size: 1 }),
  program: programHandler(job("program"), { program: ["cat"] }),
  command: commandHandler(job("command"), { allow: ["true"] }, () => ({ argv: ["true"] })),
};
const mill = await Millrace.open("sqlite::memory:", { log: false });
for (const [kind, handler] of Object.entries(handlers)) {
  const answer = await mill.work([handler]).then(
    () => "works",
    (error: { code: string }) => error.code,
  );
  console.log(`${kind}: ${answer}`);
}
await mill.close();
