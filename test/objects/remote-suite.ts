/**
 * What the clients of storage at the other end of a network make of trouble: what kind of error, whether the verb may
 * have happened, and that no error shows a secret.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Platform } from "../../src/platform/platform.ts";
import type { Objects } from "../../src/store/objects.ts";
import { retrying } from "../../src/stores/bucket/objects/retrying.ts";
import { clientPlatform } from "../support/servers/http-server.ts";
import { openFaultProxy } from "../support/servers/fault-proxy.ts";
import type { Fault, FaultProxy } from "../support/servers/fault-proxy.ts";

export interface RemoteService {
  readonly port: () => number;
  /** What the client is asked for; `endpoint` is a proxy's. */
  readonly open: (given: RemoteGiven) => Objects;
  /** The methods of its verbs. */
  readonly methods: { readonly put: string; readonly remove: string };
  /** What the service says when it is busy and has done nothing. */
  readonly busy: Fault & { readonly kind: "answer" };
  /** Texts that no error may show. */
  readonly secrets: readonly string[];
}

export interface RemoteGiven {
  readonly endpoint: string;
  readonly prefix: string;
  readonly platform?: Platform;
  readonly bucket?: string;
  readonly access?: "good" | "wrong" | "none";
}

const bytes = new TextEncoder().encode("some bytes of an object");
let places = 0;

export function describeRemote(kind: string, service: RemoteService): void {
  const { methods, busy, secrets } = service;
  let proxy: FaultProxy;
  let objects: Objects;
  let prefix: string;
  const given = (): RemoteGiven => ({ endpoint: proxy.url, prefix });

  /** The error of a verb that must fail, and shows no secret. */
  const failureOf = async (verb: Promise<unknown>): Promise<Record<string, unknown>> => {
    const error: unknown = await verb.then(
      (answer) => expect.fail(`it answered ${JSON.stringify(answer)}`),
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ name: "ObjectsError" });
    const { message, stack, cause } = error as Error;
    for (const secret of secrets) expect(`${message} ${stack} ${String(cause)}`).not.toContain(secret);
    return error as unknown as Record<string, unknown>;
  };

  beforeEach(async () => {
    proxy = await openFaultProxy({ port: service.port() });
    prefix = `remote-${(places += 1)}/`;
    objects = service.open(given());
  });
  afterEach(async () => {
    await objects.close();
    await proxy.close();
  });

  describe(`trouble on the way: ${kind}`, () => {
    test("a put whose reply was lost is of unknown outcome, and the next one finds it", async () => {
      void proxy.next(methods.put, { kind: "loseReply" });
      const lost = await failureOf(objects.put("log/1", bytes, true));
      expect(lost).toMatchObject({ kind: "unreachable", outcome: "unknown" });
      expect(await objects.put("log/1", bytes, true)).toBe("exists");
    });

    test("a put that never came is of unknown outcome too, and the next one stores", async () => {
      void proxy.next(methods.put, { kind: "dropRequest" });
      const lost = await failureOf(objects.put("log/1", bytes, true));
      expect(lost).toMatchObject({ kind: "unreachable", outcome: "unknown" });
      expect(await objects.put("log/1", bytes, true)).toBe("stored");
    });

    test("a retried put that finds its own bytes has stored them, and one that finds others has not", async () => {
      const client = retrying(objects, nodePlatform);
      void proxy.next(methods.put, { kind: "loseReply" }, 2);
      expect(await client.put("log/1", bytes, true)).toBe("stored");
      void proxy.next(methods.put, { kind: "loseReply" });
      expect(await client.put("log/1", new Uint8Array([1]), true)).toBe("exists");
    });

    test("a reply that ends too soon is none", async () => {
      await objects.put("log/1", bytes, true);
      void proxy.next("GET", { kind: "truncate" });
      const cut = await failureOf(objects.get("log/1"));
      expect(cut).toMatchObject({ kind: "unreachable", outcome: "did-not-happen" });
      expect(await objects.get("log/1")).toEqual(expect.objectContaining({ length: bytes.length }));
      void proxy.next("GET", { kind: "truncate" });
      expect(await failureOf(objects.list("", null))).toMatchObject({ kind: "unreachable" });
    });

    test("an answer past the deadline is given up", async () => {
      const timers: (() => void)[] = [];
      const setTimer: Platform["setTimer"] = (_delayMs, run) => {
        timers.push(run);
        return { cancel: () => void timers.splice(timers.indexOf(run), 1) };
      };
      const held = service.open({ ...given(), platform: { ...clientPlatform(), setTimer } });
      // Before: a client may ask for a token first.
      await held.put("log/0", bytes, true);
      const isHung = proxy.next(methods.put, { kind: "hang" });
      const put = failureOf(held.put("log/1", bytes, true));
      await isHung;
      for (const run of timers.splice(0)) run();
      expect(await put).toMatchObject({ kind: "unreachable", outcome: "unknown" });
      expect(await objects.put("log/1", bytes, true)).toBe("exists");
      await held.close();
    });

    test("a service that is busy is told apart, with how long it asks to wait", async () => {
      void proxy.next(methods.put, { ...busy, headers: { ...busy.headers, "retry-after": "7" } });
      const slow = await failureOf(objects.put("log/1", bytes, true));
      expect(slow).toMatchObject({ kind: "busy", outcome: "did-not-happen", retryAfterMs: 7000 });
      for (const status of [429, 500, 502, 503, 504]) {
        void proxy.next(methods.put, { kind: "answer", status, body: "<html>a gateway</html>" });
        const outcome = status === 429 ? "did-not-happen" : "unknown";
        expect(await failureOf(objects.put("log/1", bytes, true))).toMatchObject({ kind: "busy", outcome });
        void proxy.next("GET", { kind: "answer", status });
        expect(await failureOf(objects.get("log/1"))).toMatchObject({
          kind: "busy",
          outcome: "did-not-happen",
        });
      }
    });

    test("a storm of refusals ends by itself: gets, lists, puts and removes are tried until they work", async () => {
      const client = retrying(objects, {
        ...nodePlatform,
        setTimer: (_, run) => nodePlatform.setTimer(0, run),
      });
      const storm = (method: string): void => void proxy.next(method, busy, 5);
      storm(methods.put);
      expect(await client.put("log/1", bytes, true)).toBe("stored");
      storm("GET");
      expect((await client.get("log/1"))?.length).toBe(bytes.length);
      storm("GET");
      expect((await client.list("log/", null)).names).toEqual(["log/1"]);
      storm(methods.remove);
      await client.remove(["log/1"]);
      expect(await objects.get("log/1")).toBeNull();
    });

    test("a page of somebody in between is no answer of the storage", async () => {
      const page = "<html>404: no such page</html>";
      for (const status of [302, 400, 409]) {
        void proxy.next(methods.put, { kind: "answer", status, body: page });
        const failure = await failureOf(objects.put("log/1", bytes, false));
        expect(failure).toMatchObject({ kind: "refused", outcome: "did-not-happen" });
      }
      void proxy.next("GET", { kind: "answer", status: 200, body: page });
      expect(await failureOf(objects.list("", null))).toMatchObject({ kind: "refused" });
    });

    test("storage that does not know the condition is refused for it", async () => {
      for (const status of [400, 501]) {
        void proxy.next(methods.put, { kind: "answer", status });
        const failure = await failureOf(objects.put("log/1", bytes, true));
        expect(failure).toMatchObject({ kind: "refused", outcome: "did-not-happen" });
        expect(failure["message"]).toContain("does not know conditional writes");
      }
    });

    test("nobody at the address: nothing has happened", async () => {
      await proxy.close();
      const gone = { kind: "unreachable", outcome: "did-not-happen" };
      expect(await failureOf(objects.put("log/1", bytes, true))).toMatchObject(gone);
      expect(await failureOf(objects.get("log/1"))).toMatchObject(gone);
    });

    test("wrong credentials are denied in every verb", async () => {
      const wrong = service.open({ ...given(), access: "wrong" });
      const denied = { kind: "denied", outcome: "did-not-happen" };
      expect(await failureOf(wrong.put("log/1", bytes, true))).toMatchObject(denied);
      expect(await failureOf(wrong.get("log/1"))).toMatchObject(denied);
      expect(await failureOf(wrong.list("", null))).toMatchObject(denied);
      expect(await failureOf(wrong.remove(["log/1"]))).toMatchObject(denied);
      await wrong.close();
    });

    test("no credentials: the error says what to set", async () => {
      const none = service.open({ ...given(), access: "none" });
      const failure = await failureOf(none.get("log/1"));
      expect(failure).toMatchObject({ kind: "denied" });
      expect(failure["message"]).toMatch(/set [A-Z_]+.*bucket\.credentials/);
      await none.close();
    });

    test("a bucket that does not exist is no empty one", async () => {
      const none = service.open({ ...given(), bucket: "nobodys" });
      const missing = { kind: "no-bucket", outcome: "did-not-happen" };
      expect(await failureOf(none.put("log/1", bytes, true))).toMatchObject(missing);
      expect(await failureOf(none.get("log/1"))).toMatchObject(missing);
      expect(await failureOf(none.list("", null))).toMatchObject(missing);
      expect(await failureOf(none.remove(["log/1"]))).toMatchObject(missing);
      await none.close();
    });

    test("the close waits for a put that is under way", async () => {
      const put = objects.put("log/1", bytes, true);
      await objects.close();
      expect(await put).toBe("stored");
    });
  });
}
