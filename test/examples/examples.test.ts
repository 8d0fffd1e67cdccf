// Every example runs as it is, prints what it shows, and ends by itself.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { runScript } from "./run-script.ts";
import type { ScriptEnd } from "./run-script.ts";

const examples = join(import.meta.dirname, "..", "..", "examples");

/** What must be said, in this order; between the lines there may be others. */
const shown: Readonly<Record<string, readonly RegExp[]>> = {
  "quick-start.ts": [/^enqueued: true$/, /^result: \{ messageId: 'message-for-42' \}$/],
  "typed-jobs.ts": [
    /^resizing https:\/\/example\.com\/cat\.png to 640 px as webp$/,
    /^done: 76800 bytes$/,
    /^refused: invalid-input$/,
    /^jobs in the store: 1$/,
  ],
  "retries-and-dead-letters.ts": [
    /^-> 200 OK$/,
    /^-> .*ended as failed \(retries-exhausted\): Error: 503/,
    /^-> .*ended as failed \(unrecoverable\): Unrecoverable: 410 Gone$/,
    /"\/deleted".* unrecoverable \[1: 410 Gone\]$/,
    /"\/down".* retries-exhausted \[1: 503 .*, 2: 503 .*, 3: 503 .*\]$/,
    /^brought back: 1$/,
    /^-> 200 OK$/,
  ],
  "delays-and-unique.ts": [
    /^the second enqueue made a job: false and gave the first one's id: true$/,
    /^five changes, jobs: 1$/,
    /^reminder: high priority$/,
    /^reminder: low priority$/,
    /^the late reminder came in time$/,
  ],
  "transaction.ts": [
    /^order 2 rolled back: out of stock$/,
    /^jobs: \{"default":\{"ready":1\}\}$/,
    /^orders: \[\{"id":1,"item":"hat","receipt":"sent"\}\]$/,
  ],
  "batches.ts": [
    /^one call for 10 pages$/,
    /^one call for 10 pages$/,
    /^one call for 5 pages$/,
    /^completed: 24$/,
    /^failed: 13$/,
  ],
  "kv-and-follow-ups.ts": [
    /^notify: good\.csv is imported$/,
    /ended as failed \(retries-exhausted\): Error: it is no CSV$/,
    /^imports: 1$/,
    /^reset by compare and set: 0$/,
  ],
  "cancel-and-timeouts.ts": [
    /^a\.example, attempt 1: aborted by cancel$/,
    /^b\.example, attempt 1: aborted by timeout$/,
    /^b\.example, attempt 2: aborted by timeout$/,
    /^-> failed \(retries-exhausted\)$/,
    /^-> expired \(deadline\)$/,
    /^-> cancelled \(asked\)$/,
  ],
  "sandboxed-handlers.ts": [
    /^primes below 100000, counted in a thread: 9592$/,
    /^counted in Python: \{"be":2,"not":1,"or":1,"to":2\}$/,
    /^how many words, by the KV: 6$/,
    /^nothing to count: unrecoverable$/,
    /^sorted by a command: oak elm ash$/,
  ],
  "bucket.ts": [
    /^thumbnails: cat-small, dog-small, owl-small$/,
    /^completed, seen through a view: 3$/,
    /^an enqueue there: store-read-only$/,
    /^so far \d+ PUT, \d+ GET and \d+ LIST, for 0\.00\d+$/,
  ],
  "report-flow.ts": [
    /^notify: the report of 2026-10 failed$/,
    /^fetch retries-exhausted, Error: the warehouse is down$/,
    /^fetch failed$/,
    /^merge skipped$/,
    /^tell completed$/,
    /^run again: \{ runs: 1, waits: \d+ \}$/,
    /^result: \{.* merge: '2026-10: page 1, page 2, page 3' \}$/,
  ],
  "fan-out-flow.ts": [
    /^result: \{ sum: '995 images, 995 KiB' \}$/,
    /^failed: shrink\.7, shrink\.207, shrink\.407, shrink\.607, shrink\.807$/,
    /^the flow: completed$/,
  ],
  "order-with-approval.ts": [
    /^payment: (buffered|delivered)$/,
    /^the same again: duplicate$/,
    /^approval: accepted$/,
    /^result: hold-17 shipped, paid by visa$/,
  ],
  "saga-with-undo.ts": [
    /^flight to Lisbon booked$/,
    /^hotel booked$/,
    /^hotel cancelled$/,
    /^flight cancelled$/,
    /^no car left$/,
  ],
  "a-weeks-sleep.ts": [
    /^welcome, ann@example\.com$/,
    /^sleeping: true$/,
    /^\[ 'how was your week, ann@example\.com\?' \]$/,
  ],
  "agent.ts": [
    /^approval: accepted$/,
    /^plan#1: I would look at lamps$/,
    /^result: I would look at price of lamps/,
    /^acts: 1 summary: \{ found: 3, approved: true \}$/,
  ],
  "parallel-tools.ts": [/^\[ 'sun in Oslo', 'sun in Rome', 'sun in Cairo' \]$/],
  "signal-from-a-webhook.ts": [/^sent twice: duplicate$/, /^paid: visa$/],
  "versions.ts": [
    /^broken by the deploy: 0$/,
    /^version 1 rendered 3 pages$/,
    /^version 2 collected first, and rendered 3 pages$/,
  ],
  "race-flow.ts": [/^\{ buy: 'bought for 40' \}$/, /^the third ended as cancelled \(not-needed\)/],
  "testing-your-jobs.ts": [
    /^the welcome waits/,
    /^the first attempt failed/,
    /^the second attempt completed, eleven minutes later/,
  ],
};

/**
 * In an order of its own: on a machine that is late, what is due by then overtakes the low priority; a cancel comes
 * when it comes.
 */
const shownBeside: Readonly<Record<string, readonly RegExp[]>> = {
  "versions.ts": [
    /^broken by the deploy: 0$/,
    /^version 1 rendered 3 pages$/,
    /^version 2 collected first, and rendered 3 pages$/,
  ],
  "race-flow.ts": [/^Cleo's is not needed any more$/],
  "delays-and-unique.ts": [
    /^reminder: only once$/,
    /^reminder: 300 ms later$/,
    /^the late reminder came in time$/,
  ],
};

describe("the examples", () => {
  const files = readdirSync(examples).filter((file) => file.endsWith(".ts"));

  test("all have an expectation here", () => {
    expect(files.toSorted()).toEqual(Object.keys(shown).toSorted());
  });

  test.each(files)("%s runs, says what it shows and ends by itself", async (file) => {
    const folder = mkdtempSync(join(tmpdir(), "millrace-example-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const end = await runScript(join(examples, file), folder);
    expect(end.err).toBe("");
    expect(end.code).toBe(0);
    for (const lines of [shown[file], shownBeside[file]]) expectInOrder(end, lines ?? []);
  });
});

function expectInOrder({ out }: ScriptEnd, patterns: readonly RegExp[]): void {
  const lines = out.trimEnd().split("\n");
  let from = 0;
  for (const pattern of patterns) {
    const at = lines.findIndex((line, index) => index >= from && pattern.test(line));
    expect(at, `${pattern} is not said from line ${from + 1} on:\n${out}`).toBeGreaterThanOrEqual(0);
    from = at + 1;
  }
}
