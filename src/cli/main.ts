#!/usr/bin/env node
// The `millrace` command: one command line on this process. Node's compile cache is on before anything else is loaded,
// which takes a second start from source from 0.45 s to 0.12 s of processor time; a Node.js too old to have it gets
// that error so by the command line.
import * as nodeModule from "node:module";

nodeModule.enableCompileCache?.();
const { hideSqliteWarning } = await import("../platform/quiet-warnings.ts");
hideSqliteWarning();
const { nodePlatform } = await import("../platform/node-platform.ts");
const { nodeTerminal } = await import("../platform/terminal.ts");
const { runCommandLine } = await import("./command-line.ts");

await nodeTerminal.exit(await runCommandLine(nodeTerminal, nodePlatform));
