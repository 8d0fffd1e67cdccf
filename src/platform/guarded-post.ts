/**
 * One HTTP POST to a place that other people named. Always true:
 *
 *   - The address is checked when it is connected to, and the very address that was checked is used: a name that leads
 *     elsewhere by then is refused. Each request resolves its name anew and opens a connection of its own.
 *   - Redirects are not followed. Proxies of the environment are not used.
 *   - It ends within its time, whatever the other side does: hangs, drips or never reads. Of the answer's body no more
 *     than a little is read; then the connection is cut.
 */
import { lookup } from "node:dns";
import { request as httpRequest } from "node:http";
import type { ClientRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import type { Socket } from "node:net";
import type { Platform } from "./platform.ts";

export interface PostRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** From the first lookup of the name to the end of the answer. */
  readonly timeoutMs: number;
  readonly mayConnect: (address: string) => boolean;
  readonly signal?: AbortSignal;
}

export interface PostAnswer {
  readonly status: number;
  /** The value of the header `retry-after`; null for none. */
  readonly retryAfter: string | null;
  /** The beginning of the body. */
  readonly text: string;
}

/** The address is none that may be connected to. */
export class AddressRefused extends Error {
  override readonly name = "AddressRefused";
}

const answerBytesMax = 4096;

export function guardedPost(
  platform: Pick<Platform, "setTimer" | "resolveHost">,
  post: PostRequest,
): Promise<PostAnswer> {
  const { url, timeoutMs, mayConnect } = post;
  return new Promise((resolve, reject) => {
    let cut = (): void => undefined;
    const end = (settle: () => void): void => {
      timer.cancel();
      settle();
      cut();
    };
    const fail = (error: unknown): void => end(() => reject(error as Error));
    let isLate = false;
    const timer = platform.setTimer(timeoutMs, () => {
      isLate = true;
      fail(new Error(`No answer within ${timeoutMs} ms.`));
    });
    checkedAddresses(platform, new URL(url).hostname, mayConnect).then((addresses) => {
      if (isLate) return;
      const sent = send(post, addresses, { answered: (answer) => end(() => resolve(answer)), failed: fail });
      cut = () => void sent.destroy();
    }, fail);
  });
}

/** All addresses of a host must pass: one of them would be tried after the other. */
async function checkedAddresses(
  platform: Pick<Platform, "resolveHost">,
  hostname: string,
  mayConnect: (address: string) => boolean,
): Promise<readonly string[]> {
  const literal = hostname.replace(/^\[(.*)\]$/, "$1");
  const addresses = isIP(literal) === 0 ? await platform.resolveHost(hostname) : [literal];
  const bad = addresses.find((address) => !mayConnect(address));
  if (bad !== undefined) throw refused(hostname, bad);
  if (addresses.length === 0) throw new Error(`${hostname} has no address.`);
  return addresses;
}

function send(
  { url, headers, body, mayConnect, signal }: PostRequest,
  addresses: readonly string[],
  listener: { readonly answered: (answer: PostAnswer) => void; readonly failed: (error: unknown) => void },
): ClientRequest {
  const { protocol, hostname } = new URL(url);
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  const [first] = found as [(typeof found)[number]];
  const sent = (protocol === "https:" ? httpsRequest : httpRequest)(url, {
    method: "POST",
    headers: { ...headers, "content-length": String(Buffer.byteLength(body)), connection: "close" },
    agent: false,
    lookup: (_hostname, options, done) =>
      options.all === true ? done(null, found) : done(null, first.address, first.family),
    ...(signal === undefined ? {} : { signal }),
  });
  sent.on("error", listener.failed);
  // The addresses have been checked; this holds whatever else may have chosen one.
  sent.on("socket", (socket: Socket) =>
    socket.once("connect", () => {
      const address = socket.remoteAddress ?? "";
      if (!mayConnect(address)) listener.failed(refused(hostname, address));
    }),
  );
  sent.on("response", (response) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    const end = (): void => {
      const { statusCode = 0, headers: given } = response;
      const text = Buffer.concat(parts).subarray(0, answerBytesMax).toString("utf8");
      listener.answered({ status: statusCode, retryAfter: given["retry-after"] ?? null, text });
    };
    response.on("data", (part: Buffer) => {
      parts.push(part);
      bytes += part.length;
      if (bytes >= answerBytesMax) end();
    });
    response.on("end", end);
    response.on("error", listener.failed);
  });
  sent.end(body);
  return sent;
}

function refused(hostname: string, address: string): AddressRefused {
  const where = hostname === address ? address : `${hostname} leads to ${address}, which`;
  return new AddressRefused(`${where} is no address of the public internet, and nobody has allowed it.`);
}

/** The addresses of a host by this machine's own resolver. */
export function resolveHost(hostname: string): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    lookup(hostname, { all: true, verbatim: true }, (error, found) =>
      error === null ? resolve(found.map(({ address }) => address)) : reject(error),
    );
  });
}
