// The same two handlers as a program that speaks Millrace's line protocol, as one of any language would.
import { spin } from "./busy.mjs";

const isBusy = process.argv[2] === "busy";
process.stdout.write('{"type":"ready","ahead":true}\n');
let rest = "";
process.stdin.setEncoding("utf8").on("data", (piece) => {
  const lines = (rest + piece).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const { type, run } = JSON.parse(line);
    if (type !== "run") continue;
    if (isBusy) spin();
    process.stdout.write(`{"type":"returned","run":${run}}\n`);
  }
});
