// Against real servers on this machine, which are allowed here as the case says.
import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { addressGuard } from "./address-guard.ts";
import { guardedPost } from "./guarded-post.ts";
import type { PostRequest } from "./guarded-post.ts";
import { nodePlatform } from "./node-platform.ts";
import { hangMs } from "../../test/support/hang-ms.ts";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const post = (
  url: string,
  given: Partial<PostRequest> = {},
  resolveHost = (name: string) => nodePlatform.resolveHost(name),
): ReturnType<typeof guardedPost> =>
  guardedPost(
    { ...nodePlatform, resolveHost },
    { url, headers: { "x-a": "1" }, body: "{}", timeoutMs: hangMs, mayConnect: addressGuard(true), ...given },
  );

test("sends the body with its headers, and answers status and text", async () => {
  const port = await serve((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      response.writeHead(503, { "retry-after": "7" });
      response.end(`${request.method} ${String(request.headers["x-a"])} ${body}`);
    });
  });
  expect(await post(`http://127.0.0.1:${port}/x`, { body: '{"ä":1}' })).toEqual({
    status: 503,
    retryAfter: "7",
    text: 'POST 1 {"ä":1}',
  });
});

test("an address that is not public is refused before anything is sent, however it is written", async () => {
  let requests = 0;
  const port = await serve((_request, response) => {
    requests += 1;
    response.end();
  });
  const mayConnect = addressGuard(false);
  const hosts = ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "localhost"];
  for (const host of [...hosts, "10.0.0.1", "169.254.169.254", "[fe80::1]"])
    await expect(post(`http://${host}:${port}/`, { mayConnect }), host).rejects.toMatchObject({
      name: "AddressRefused",
    });
  expect(requests).toBe(0);
});

test("a name that leads elsewhere later is refused then, and one of several private addresses is enough", async () => {
  let requests = 0;
  const port = await serve((_request, response) => {
    requests += 1;
    response.end("ok");
  });
  const mayConnect = (address: string): boolean => address === "127.0.0.1";
  const answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "10.0.0.1"], []];
  const resolve = (): Promise<readonly string[]> => Promise.resolve(answers.shift() as string[]);
  const url = `http://receiver.example:${port}/`;
  expect(await post(url, { mayConnect }, resolve)).toMatchObject({ status: 200, text: "ok" });
  await expect(post(url, { mayConnect }, resolve)).rejects.toMatchObject({ name: "AddressRefused" });
  await expect(post(url, { mayConnect }, resolve)).rejects.toMatchObject({ name: "AddressRefused" });
  await expect(post(url, { mayConnect }, resolve)).rejects.toThrow("has no address");
  expect(requests).toBe(1);
});

test("a redirect is answered and not followed", async () => {
  let requests = 0;
  const port = await serve((_request, response) => {
    requests += 1;
    response.writeHead(307, { location: `http://127.0.0.1:${port}/other` });
    response.end();
  });
  expect(await post(`http://127.0.0.1:${port}/`)).toMatchObject({ status: 307 });
  expect(requests).toBe(1);
});

test("of an endless answer the beginning is read, and the connection is cut", async () => {
  const closed = Promise.withResolvers<number>();
  const port = await serve((_request, response) => {
    const part = Buffer.alloc(64 * 1024, "x");
    let bytes = 0;
    const more = (): void => {
      while (response.write(part)) bytes += part.length;
    };
    response.on("drain", more);
    response.on("close", () => closed.resolve(bytes));
    response.on("error", () => undefined);
    more();
  });
  const { status, text } = await post(`http://127.0.0.1:${port}/`);
  expect([status, text]).toEqual([200, "x".repeat(4096)]);
  expect(await closed.promise).toBeLessThan(64 * 1024 * 1024);
});

test("who hangs, drips, never reads or goes away ends within the time", async () => {
  const drips: RequestListener = (_request, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("x");
  };
  for (const listener of [() => undefined, drips]) {
    const port = await serve(listener);
    await expect(post(`http://127.0.0.1:${port}/`, { timeoutMs: 50 })).rejects.toThrow("within 50 ms");
  }
  const port = await serve((request) => request.socket.destroy());
  await expect(post(`http://127.0.0.1:${port}/`)).rejects.toThrow(/hang up|ECONNRESET/);
  const never = new Promise<readonly string[]>(() => undefined);
  await expect(post("http://slow.example/", { timeoutMs: 50 }, () => never)).rejects.toThrow("within 50 ms");
});

test("the caller's signal ends it", async () => {
  const came = Promise.withResolvers<void>();
  const port = await serve(() => came.resolve());
  const abort = new AbortController();
  const posting = post(`http://127.0.0.1:${port}/`, { signal: abort.signal });
  await came.promise;
  abort.abort();
  await expect(posting).rejects.toMatchObject({ name: "AbortError" });
});
