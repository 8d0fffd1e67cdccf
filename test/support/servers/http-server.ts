/** A server on loopback for tests: each request comes with its whole body. */
import { createServer } from "node:http";
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { nodePlatform } from "../../../src/platform/node-platform.ts";
import type { Platform } from "../../../src/platform/platform.ts";

/** What the clocks of the servers of the tests show, always: requests and tokens are as old as a test makes them. */
export const serverAt = Date.UTC(2026, 0, 1);

/** The platform of a client of such a server; of this machine's environment it has nothing but the given variables. */
export function clientPlatform(variables: Readonly<Record<string, string>> = {}): Platform {
  return { ...nodePlatform, now: () => serverAt, readEnv: (name) => variables[name] };
}

export interface WholeRequest {
  readonly method: string;
  /** As it came: path and query, still encoded. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface HttpServer {
  readonly port: number;
  readonly url: string;
  close(): Promise<void>;
}

/** `arrived` is called with the headers, before the body has come. @returns what handles the whole request. */
export async function serveHttp(
  arrived: (
    head: Omit<WholeRequest, "body">,
  ) => (request: WholeRequest, response: ServerResponse) => void | Promise<void>,
): Promise<HttpServer> {
  const server = createServer((request, response) => {
    const head = { method: request.method ?? "", target: request.url ?? "", headers: request.headers };
    const handle = arrived(head);
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      Promise.resolve(handle({ ...head, body: Buffer.concat(parts) }, response)).catch((error: unknown) => {
        response.destroy(error as Error);
      });
    });
    request.on("error", () => undefined);
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
