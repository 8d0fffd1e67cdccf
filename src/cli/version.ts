/** `millrace version`. */
import { command } from "./command.ts";
import { packageVersion } from "./package-version.ts";

export const version = command({
  name: "version",
  summary: "the version of Millrace and of Node.js",
  opensStore: false,
  options: {},
  async run({ terminal: { nodeVersion }, answer }) {
    const millrace = packageVersion();
    answer({ millrace, node: nodeVersion }, `millrace ${millrace} (Node.js ${nodeVersion})`);
  },
});
