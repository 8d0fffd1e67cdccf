#!/usr/bin/env node
// The `millrace` command: one command line on this process.
import { nodePlatform } from "../platform/node-platform.ts";
import { nodeTerminal } from "../platform/terminal.ts";
import { runCommandLine } from "./command-line.ts";

await nodeTerminal.exit(await runCommandLine(nodeTerminal, nodePlatform));
