// A program that speaks the line protocol, and breaks it in the way its input says.
import { closeSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const say = (message) => void writeSync(1, `${JSON.stringify(message)}\n`);
/** In pieces, waiting where the pipe is full. */
function write(text) {
  for (let rest = Buffer.from(text); rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

const mode = process.argv[2] ?? "";
if (mode === "dies") process.exit(3);
if (mode === "silent") setInterval(() => {}, 1000);
if (mode === "garbage") console.log("Welcome to this program!");
if (mode === "" || mode === "listens") say({ type: "ready", aborts: mode === "listens" });

for await (const line of createInterface({ input: process.stdin })) {
  const { type, run, input } = JSON.parse(line);
  if (type !== "run") continue;
  switch (input.do) {
    case "garbage":
      write("Traceback: this is no message\n");
      break;
    case "half":
      write('{"type": "retur');
      process.exit(0);
      break;
    case "unknown":
      say({ type: "dance", run });
      break;
    case "long":
      write(`{"type":"returned","run":${run},"result":"`);
      for (let megabytes = 0; megabytes < 100; megabytes++) write("x".repeat(1024 * 1024));
      write('"}\n');
      break;
    case "exit":
      process.exit(4);
      break;
    case "closes-input":
      closeSync(0);
      await new Promise((resolve) => setTimeout(resolve, 60_000));
      break;
    case "twice":
      say({ type: "returned", run, result: 1 });
      say({ type: "returned", run, result: 2 });
      say({ type: "progress", run, value: 1 });
      break;
    case "wrong-types":
      say({ type: "progress", run, value: "much", message: { no: "text" } });
      say({ type: "log", run, level: 5 });
      say({ type: "log", run, level: "info", message: ["x"], fields: "none" });
      say({ type: "call", run, call: "x", ask: "format the disk" });
      say({ type: "returned", run, result: "went on" });
      break;
    case "wrong-effect":
      say({ type: "effect", run, effect: "kv.put", key: "" });
      say({ type: "returned", run, result: "not this" });
      break;
    case "wrong-control":
      say({ type: "threw", run, error: "just a text", control: { kind: "snooze", delayMs: -5 } });
      break;
    case "wrong-value":
      say({ type: "returned", run, tagged: "~[nonsense" });
      break;
    case "no-error":
      say({ type: "threw", run });
      break;
    case "environment":
      say({ type: "returned", run, result: { ...process.env } });
      break;
    case "ignores-terms":
      process.on("SIGTERM", () => {});
      for (;;) await new Promise((resolve) => setTimeout(resolve, 1000));
    case "waits":
      await new Promise((resolve) => setTimeout(resolve, 60_000));
      break;
    default:
      say({ type: "returned", run, result: input.value });
  }
}
