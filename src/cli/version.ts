/** `millrace version`. */
import type { Command } from "./command.ts";
import { packageVersion } from "./package-version.ts";
import { toJson } from "./output/print-json.ts";

export const version: Command = {
  name: "version",
  usage: "version",
  summary: "the version of Millrace and of Node.js",
  words: [0, 0],
  options: {},
  async run({ terminal, wantsJson }) {
    const versions = { millrace: packageVersion(), node: terminal.nodeVersion };
    terminal.writeOut(
      wantsJson ? `${toJson(versions)}\n` : `millrace ${versions.millrace} (Node.js ${versions.node})\n`,
    );
    return 0;
  },
};
