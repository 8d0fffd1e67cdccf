/** A receiver of webhooks on this machine: what came in, and the answers that the test wants. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll } from "vitest";

export interface Received {
  readonly path: string;
  readonly id: string;
  readonly signature: string;
  readonly text: string;
  readonly body: { readonly id: string; readonly webhook: string; readonly event: Record<string, unknown> };
}

export interface Receiver {
  readonly url: string;
  readonly all: Received[];
  /** Answers the status of the next request; 200 where it gives nothing. */
  answer: (received: Received) => number | undefined | Promise<number | undefined>;
}

export async function openReceiver(): Promise<Receiver> {
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      const { headers, url = "" } = request;
      const received: Received = {
        path: url,
        id: String(headers["millrace-delivery"]),
        signature: String(headers["millrace-signature"]),
        text,
        body: JSON.parse(text) as Received["body"],
      };
      receiver.all.push(received);
      void Promise.resolve(receiver.answer(received)).then((status) => {
        response.writeHead(status ?? 200);
        response.end();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = { url: `http://127.0.0.1:${port}`, all: [], answer: () => undefined };
  return receiver;
}
