/**
 * An HTTP proxy before an object storage, for tests of what a client makes of broken requests and replies. Requests are
 * handed on as they came, so signatures still hold. A fault hits the next requests that match it:
 *
 *  answer       this reply, and the storage never sees the request
 *  dropRequest  the connection is reset, and the storage never sees the request
 *  loseReply    the storage does it, and the connection is reset before any of the reply
 *  truncate     the storage does it, and the connection is reset in the middle of the reply's body
 *  hang         the storage does it, and the reply never comes
 */
import { request as httpRequest } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { serveHttp } from "./http-server.ts";
import type { WholeRequest } from "./http-server.ts";

export type Fault =
  | { readonly kind: "dropRequest" | "loseReply" | "truncate" | "hang" }
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    };

export interface FaultProxy {
  readonly url: string;
  /** Every request that came, as "METHOD target". */
  readonly seen: readonly string[];
  /** Hits the next N requests of the method. @returns when the last of them was hit. */
  next(method: string, fault: Fault, times?: number): Promise<void>;
  close(): Promise<void>;
}

interface Trap {
  readonly method: string;
  readonly fault: Fault;
  left: number;
  readonly sprung: () => void;
}

export async function openFaultProxy(target: { readonly port: number }): Promise<FaultProxy> {
  const traps: Trap[] = [];
  const seen: string[] = [];
  const server = await serveHttp(() => async (request, response) => {
    seen.push(`${request.method} ${request.target}`);
    const trap = traps.find(({ method, left }) => left > 0 && method === request.method);
    if (trap !== undefined) trap.left -= 1;
    await handle(request, response, { port: target.port, fault: trap?.fault ?? null });
    if (trap?.left === 0) trap.sprung();
  });
  return {
    url: server.url,
    seen,
    next: (method, fault, times = 1) =>
      new Promise((resolve) => void traps.push({ method, fault, left: times, sprung: resolve })),
    close: () => server.close(),
  };
}

async function handle(
  request: WholeRequest,
  response: ServerResponse,
  { port, fault }: { port: number; fault: Fault | null },
): Promise<void> {
  if (fault?.kind === "dropRequest") return void response.destroy();
  if (fault?.kind === "answer") {
    response.writeHead(fault.status, fault.headers);
    response.end(fault.body ?? "");
    return;
  }
  const { reply, body } = await pass(request, port);
  if (fault?.kind === "loseReply") return void response.destroy();
  if (fault?.kind === "hang") return;
  const headers = { ...reply.headers };
  delete headers["transfer-encoding"];
  if (body.length > 0) headers["content-length"] = String(body.length);
  response.writeHead(reply.statusCode ?? 500, headers);
  if (fault?.kind !== "truncate") return void response.end(body);
  await new Promise<void>((resolve) => response.write(body.subarray(0, body.length >> 1), () => resolve()));
  response.destroy();
}

function pass(
  { method, target, headers, body }: WholeRequest,
  port: number,
): Promise<{ reply: IncomingMessage; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const passed = httpRequest({ port, host: "127.0.0.1", method, path: target, headers }, (reply) => {
      const parts: Buffer[] = [];
      reply.on("data", (part: Buffer) => parts.push(part));
      reply.on("end", () => resolve({ reply, body: Buffer.concat(parts) }));
    });
    passed.on("error", reject);
    passed.end(body);
  });
}
