/**
 * One HTTP request and its whole reply, over the connections that Node keeps open. Always true:
 *
 *   - It ends within its time. A large body gets more of it: what its bytes take on a slow line.
 *   - A reply is whole: if the connection is lost in the middle of it, or if it is shorter or longer than it said, the
 *     exchange has failed.
 *   - Redirects are not followed, so a signed request goes nowhere else.
 */
import type { Platform } from "./platform.ts";

export interface HttpRequest {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
}

export interface HttpReply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

/** There is no whole reply. */
export class ExchangeFailed extends Error {
  override readonly name = "ExchangeFailed";
  /** The request cannot have reached the server: no connection came about. */
  readonly wasNotSent: boolean;

  constructor(message: string, wasNotSent: boolean) {
    super(message);
    this.wasNotSent = wasNotSent;
  }
}

/** A slower line than 256 KiB/s is as good as none. */
const bytesPerMs = 256;
/** Taken once, for the reason given in node-platform.ts. */
const { fetch } = globalThis;

export async function exchange(
  platform: Pick<Platform, "setTimer">,
  { method, url, headers, body }: HttpRequest,
  timeoutMs: number,
): Promise<HttpReply> {
  const abort = new AbortController();
  const limit = (bytes: number) =>
    platform.setTimer(timeoutMs + Math.ceil(bytes / bytesPerMs), () => abort.abort());
  let timer = limit(body?.length ?? 0);
  try {
    const response = await fetch(url, {
      method,
      // Compressed bytes on the way would make the length of the body another than the length that was announced.
      headers: { ...headers, "accept-encoding": "identity" },
      body: body as Uint8Array<ArrayBuffer> | null,
      redirect: "manual",
      signal: abort.signal,
    });
    const announced = response.headers.get("content-length");
    timer.cancel();
    timer = limit(Number(announced ?? 0));
    const whole = new Uint8Array(await response.arrayBuffer());
    if (announced !== null && whole.length !== Number(announced)) {
      const sentence = `the reply ended after ${whole.length} of ${announced} bytes`;
      throw new ExchangeFailed(sentence, false);
    }
    return { status: response.status, headers: response.headers, body: whole };
  } catch (error) {
    if (error instanceof ExchangeFailed) throw error;
    if (abort.signal.aborted) throw new ExchangeFailed(`no answer within ${timeoutMs} ms`, false);
    const code = codeOf(error);
    throw new ExchangeFailed(`the connection failed: ${code}`, notConnected.has(code));
  } finally {
    timer.cancel();
  }
}

/** Errors before there is a connection; certificates are checked before anything is sent. */
const notConnected = new Set([
  ...["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"],
  ...["CERT_HAS_EXPIRED", "DEPTH_ZERO_SELF_SIGNED_CERT", "SELF_SIGNED_CERT_IN_CHAIN"],
  ...["ERR_TLS_CERT_ALTNAME_INVALID", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "UNABLE_TO_VERIFY_LEAF_SIGNATURE"],
]);

/** `fetch` wraps what happened, once or twice; with several addresses the errors of all of them. */
function codeOf(error: unknown): string {
  let found: unknown = error;
  for (let depth = 0; depth < 4 && found instanceof Error; depth++) {
    const { code } = found as { code?: unknown };
    if (typeof code === "string" && code !== "") return code;
    found = found instanceof AggregateError ? found.errors[0] : found.cause;
  }
  return "no reply";
}
