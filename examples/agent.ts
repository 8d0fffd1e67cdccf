// An agent: it asks a language model, calls tools side by side, streams what it says, stays inside a rate per tenant and
// a budget of tokens, and waits for a person before it acts. The model is a small server in this file, which answers
// slowly and now and then with 429. Its test kills the process at random moments, and the agent acts once.
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { budget, handler, job, limit, Millrace, RetryAfter } from "millrace";
import { z } from "zod";

const [url = "sqlite::memory:", role = "all"] = process.argv.slice(2);

const tokens = budget("tokens", {
  hard: 100_000,
  perKey: { hard: 50_000 },
  reset: { every: "1d", zone: "UTC" },
});
const modelApi = limit("model-api", { concurrency: 8, perKey: { rate: { max: 50, per: "1s", burst: 10 } } });
const retry = { attempts: 100, backoff: { kind: "fixed", delay: "20ms", jitter: "none" } } as const;

const tool = job<{ name: string; of: string }, string>("tool", { retry });
const agent = job("agent", {
  input: z.object({ tenant: z.string(), question: z.string() }),
  signals: { person: z.object({ ok: z.boolean() }) },
  durable: { version: 1 },
  retry,
  budgets: [tokens.use({ key: (input: { tenant: string }) => input.tenant })],
});

const mill = await Millrace.open(url, { log: false });

if (role !== "ask") {
  // The model: words come slowly, and every third question is one too many.
  let asked = 0;
  const speak = async (topic: string, response: ServerResponse): Promise<void> => {
    for (const word of ["I ", "would ", "look ", "at ", topic]) {
      response.write(word);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    response.end();
  };
  const model = createServer((request, response) => {
    asked += 1;
    if (asked % 3 === 0) response.writeHead(429, { "retry-after": "0.02" }).end();
    else void speak(decodeURIComponent(request.url?.slice(1) ?? ""), response);
  });
  await new Promise<void>((resolve) => model.listen(0, "127.0.0.1", resolve));
  model.unref();
  const { port } = model.address() as AddressInfo;

  /** Asks the model, and hands on its words as they come. */
  const ask = async (topic: string, onText: (text: string) => void, signal: AbortSignal): Promise<string> => {
    const reply = await fetch(`http://127.0.0.1:${port}/${encodeURIComponent(topic)}`, { signal });
    if (reply.status === 429) throw new RetryAfter(`${Number(reply.headers.get("retry-after")) * 1000}ms`);
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of reply.body ?? []) {
      const part = decoder.decode(bytes, { stream: true });
      onText(part);
      text += part;
    }
    return text;
  };

  await mill.work(
    [
      handler(tool, ({ input }) => `${input.name} of ${input.of}`),
      handler(agent, async ({ input, step, stream }) => {
        const think = (name: string, topic: string): Promise<string> =>
          step.run(
            name,
            async ({ usage, signal }) => {
              await using hold = await usage.reserve(tokens, 100);
              const text = await ask(topic, stream.write, signal);
              await hold.settle(text.split(" ").length);
              return text;
            },
            { limits: [modelApi.use({ key: input.tenant })], retry: { attempts: 100, backoff: "10ms" } },
          );
        const plan = await think("plan", input.question);
        const found = await step.each(
          "tool",
          ["price", "stock", "rating"],
          (name) => name,
          (name, own) => own.invoke(tool, { name, of: plan.split(" ").at(-1) ?? "" }),
          { concurrency: 2 },
        );
        const answer = await think("answer", found.join("+"));
        const { approved } = await step.approval("person", { timeout: "7d" });
        // What must happen once has a key that outside systems know it by; here a key of the store's own KV.
        if (approved)
          await step.run("act", ({ idempotencyKey }) => mill.kv.put(`acts/${idempotencyKey}`, { answer }));
        stream.summary({ found: found.length, approved });
        return answer;
      }),
    ],
    { lease: "500ms", concurrency: 10 },
  );
}

if (role !== "work") {
  const run = await mill.enqueue(agent, { tenant: "acme", question: "lamps" }, { id: "agent-1" });
  // Ann gets a link with this token by mail; here she answers at once.
  const token = await mill.approvals.token(run.id, "person", { source: "ann", expires: "7d" });
  console.log("approval:", (await mill.approvals.answer(token, { ok: true })).kind);
  const said = new Map<string | null, string>();
  for await (const frame of mill.frames<string>(run.id)) {
    if (frame.kind === "data") said.set(frame.part, (said.get(frame.part) ?? "") + frame.value);
    if (frame.kind === "restarted" && frame.part === null) said.clear();
    if (frame.kind === "restarted" && frame.part !== null) said.delete(frame.part);
  }
  for (const [part, text] of said) console.log(`${part}: ${text}`);
  console.log("result:", await run.result({ timeout: "60s" }));
  let acts = 0;
  for await (const _act of mill.kv.scan("acts/")) acts += 1;
  console.log("acts:", acts, "summary:", (await mill.output(run.id)).summary);
  await mill.close();
}
