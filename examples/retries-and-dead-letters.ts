// Failures: backoff, a retry at a time the other side names, errors that no retry can help, and the replay of what
// failed for good.
import { handler, job, Millrace, RetryAfter, Unrecoverable } from "millrace";

const callApi = job<{ path: string }>("call-api", {
  retry: { attempts: 3, backoff: { kind: "exponential", from: "50ms", to: "1s" } },
});

let isUp = false;
const mill = await Millrace.open("sqlite::memory:", { log: false });
await mill.work([
  handler(callApi, async ({ input, attempt }) => {
    console.log(`${input.path}: attempt ${attempt}`);
    if (input.path === "/deleted") throw new Unrecoverable("410 Gone");
    if (input.path === "/busy" && attempt === 1) throw new RetryAfter("100ms", "429 Too Many Requests");
    if (input.path === "/down" && !isUp) throw new Error("503 Service Unavailable");
    return "200 OK";
  }),
]);

const handles = await mill.enqueueMany(["/busy", "/down", "/deleted"].map((path) => callApi.with({ path })));
for (const handle of handles) {
  const said = await handle.result({ timeout: "10s" }).catch((error: Error) => error.message);
  console.log(`-> ${String(said)}`);
}

console.log("failed jobs, newest first:");
for await (const failed of mill.jobs.find({ state: "failed" })) {
  const errors = failed.failures.map(({ attempt, error }) => `${attempt}: ${error?.message}`);
  console.log(`  ${JSON.stringify(failed.input)} ${failed.reason} [${errors.join(", ")}]`);
}

isUp = true;
const { retried } = await mill.jobs.retry({ state: "failed", reason: "retries-exhausted" });
console.log("brought back:", retried);
console.log(`-> ${String(await handles[1]?.result({ timeout: "10s" }))}`);
await mill.close();
