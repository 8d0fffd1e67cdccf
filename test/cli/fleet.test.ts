// Workers from the command line, on a real file: listed, asked to be quiet and to stop, and seen in top.
import { describe, expect, test } from "vitest";
import { handler, job, Millrace } from "../../src/index.ts";
import { until } from "../support/until.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

const mail = job<number>("send", { queue: "mail" });

describe("millrace workers", () => {
  test("lists workers, and makes one quiet, go on and stop", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    const given = { label: "mailer", queues: { mail: { total: 6 } } };
    const worker = await mill.work([handler(mail, async () => undefined)], given);
    const at = (text: string): string[] => [...text.split(" "), "--store", store];
    const mode = async (): Promise<string> => (await say(at("workers"))).out;
    await until("it has its share", async () => /^mailer-\w+ +working +mail 6 /m.test(await mode()));
    expect(await sayJson(at("workers"))).toMatchObject({ workers: [{ id: worker.id, slots: { mail: 6 } }] });
    expect((await say(at("workers quiet mailer"))).out).toBe(
      `${worker.id} is asked to claim nothing more and to finish what runs\n`,
    );
    await until("it is quiet", async () => /^mailer-\w+ +quiet /m.test(await mode()));
    expect(await sayJson(at(`workers resume ${worker.id}`))).toEqual({ asked: [worker.id] });
    await until("it works again", async () => /^mailer-\w+ +working /m.test(await mode()));
    await say(at("workers stop mailer --grace 1s"));
    await worker.stopped;
    expect((await say(at("workers"))).out).toBe("no live workers\n");
    expect(await say(at("workers stop mailer"))).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^millrace: worker-not-found: /) as unknown,
    });
    expect((await say(at("workers quiet"))).err).toContain("workers quiet needs a WORKER");
    expect((await say(at("workers hush mailer"))).err).toContain("knows the verbs quiet, resume, stop");
    expect((await say(at("workers quiet mailer --grace 1s"))).err).toContain("has no meaning with quiet");
  });
});

describe("millrace top", () => {
  test("prints one frame where nobody watches, as a text and as JSON", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    await mill.work([handler(mail, async () => undefined)], { label: "mailer", queues: { mail: 3 } });
    await mill.enqueue(job("other"), null);
    const { code, out } = await say(["top", "--store", store]);
    expect(code).toBe(0);
    expect(out).toMatch(/^1 worker, 0 running, 0 completed per second$/m);
    expect(out).toMatch(/^mail +0 +0 +0 +0 +3 +0 +0 +0$/m);
    expect(out).toContain("! 1 ready in default, which no live worker serves");
    expect(out).toMatch(/^mailer-\w+ +working +mail 3 /m);
    expect(out).not.toContain("\u001b");
    expect(await sayJson(["top", "--store", store])).toMatchObject({
      queues: [
        { queue: "default", ready: 1 },
        { queue: "mail", slots: 3 },
      ],
      workers: [{ label: "mailer" }],
      trouble: ["1 ready in default, which no live worker serves"],
    });
  });
});
