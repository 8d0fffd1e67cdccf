/**
 * A process of the test of killed schedules: runs the duties, says so, and fires until it is killed. `halts` stops it
 * for good between a look at what is due and the submit, which is the moment that matters.
 */
import { writeSync } from "node:fs";
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import { createServices } from "../../src/engine/services.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";

const [role = "", url = ""] = process.argv.slice(2);
const store = await openStore(nodePlatform, url);

const halting: Store = {
  ...store,
  submit: () => {
    writeSync(1, "read, not submitted\n");
    return new Promise(() => {});
  },
};

const { settings, log, duties } = readMillraceOptions(nodePlatform, { log: false });
const mill = new Millrace(
  createServices(role === "halts" ? halting : store, nodePlatform, settings, log),
  duties,
);
mill.duties.start();
// The timers of duties keep no process alive.
setInterval(() => {}, 60_000);
writeSync(1, "fires\n");
