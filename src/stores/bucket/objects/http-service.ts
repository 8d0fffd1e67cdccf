/**
 * What the clients of S3, Azure and Google Cloud Storage have in common: a signed request, its whole reply within a
 * deadline, and what a failed one means.
 *
 * An error names the bucket, the verb and the provider's code. It never has the provider's own text, a signature, a key
 * or the query of a URL: some providers put what they signed into their errors.
 */
import { ExchangeFailed, exchange } from "../../../platform/http-exchange.ts";
import type { HttpReply, HttpRequest } from "../../../platform/http-exchange.ts";
import type { Platform } from "../../../platform/platform.ts";
import { ObjectsError } from "../../../store/objects.ts";
import type { ObjectsErrorKind } from "../../../store/objects.ts";
import type { CredentialSource } from "./credential-source.ts";
import { closedError, UnknownCondition } from "./objects.ts";

const timeoutMs = 20_000;

/** What the code of an error means; the sentence says what to do. */
export interface Meaning {
  readonly kind: ObjectsErrorKind;
  readonly sentence: string;
  /** The service says itself that it did nothing. */
  readonly didNothing?: true;
}

export interface Verb {
  /** Such as "put log/17". */
  readonly what: string;
  /** A lost reply leaves open whether it happened. */
  readonly isWrite: boolean;
  /** A put that must not replace anything. */
  readonly isConditional?: boolean;
}

export interface HttpServiceOptions<Credentials extends { readonly expiration?: Date | undefined }> {
  readonly platform: Platform;
  /** The bucket as errors name it, such as "s3://jobs/prefix". */
  readonly shown: string;
  readonly credentials: CredentialSource<Credentials> | null;
  /** A request with what proves who sends it. */
  readonly sign: (request: HttpRequest, credentials: Credentials) => HttpRequest;
  /** The provider's code of a failed reply; null if it has none. */
  readonly codeOf: (reply: HttpReply) => string | null;
  readonly meanings: Readonly<Record<string, Meaning>>;
}

export class HttpService<Credentials extends { readonly expiration?: Date | undefined }> {
  readonly #options: HttpServiceOptions<Credentials>;
  #isClosed = false;
  #underway = 0;
  #whenIdle: (() => void) | null = null;

  constructor(options: HttpServiceOptions<Credentials>) {
    this.#options = options;
  }

  /** The reply, whatever its status. After a denial it asks once more if there are new credentials by then. */
  async send(request: HttpRequest, verb: Verb): Promise<HttpReply> {
    if (this.#isClosed) throw closedError();
    this.#underway += 1;
    try {
      const { credentials, codeOf } = this.#options;
      if (credentials === null) return await this.#exchange(request, verb);
      for (let isFirst = true; ; isFirst = false) {
        const current = await credentials.current();
        const reply = await this.#exchange(this.#options.sign(request, current), verb);
        const isDenied = reply.status >= 400 && this.meaningOf(reply, codeOf(reply)).kind === "denied";
        if (isFirst && isDenied && (await credentials.hasOthers(current))) continue;
        return reply;
      }
    } finally {
      this.#underway -= 1;
      if (this.#underway === 0) this.#whenIdle?.();
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // A put that is under way may still land.
    if (this.#underway > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
  }

  async #exchange(request: HttpRequest, verb: Verb): Promise<HttpReply> {
    try {
      return await exchange(this.#options.platform, request, timeoutMs);
    } catch (error) {
      if (!(error instanceof ExchangeFailed)) throw error;
      const outcome = verb.isWrite && !error.wasNotSent ? "unknown" : "did-not-happen";
      const message = `${this.#options.shown} did not answer: ${error.message} (${verb.what} at ${request.url.host})`;
      throw new ObjectsError("unreachable", message, { outcome });
    }
  }

  /** What a reply means that the client did not expect. */
  failed(reply: HttpReply, verb: Verb): ObjectsError {
    const { shown, codeOf, platform } = this.#options;
    const code = codeOf(reply);
    const meaning = this.meaningOf(reply, code);
    const { kind, didNothing } = meaning;
    // Storage that does not know the condition refuses a put for it, in different ways.
    const isUnknownCondition =
      verb.isConditional === true && kind === "refused" && [400, 501].includes(reply.status);
    const sentence = isUnknownCondition
      ? "does not know conditional writes, so it cannot keep a second writer out. Use storage that has them"
      : meaning.sentence;
    const isOpen = verb.isWrite && reply.status >= 500 && reply.status !== 501 && didNothing !== true;
    const said = [verb.what, `status ${reply.status}`, ...(code === null ? [] : [code])].join(", ");
    const ErrorOf = isUnknownCondition ? UnknownCondition : ObjectsError;
    return new ErrorOf(kind, `${shown} ${sentence} (${said})`, {
      outcome: isOpen ? "unknown" : "did-not-happen",
      retryAfterMs: retryAfterMs(reply, platform),
    });
  }

  meaningOf({ status }: HttpReply, code: string | null): Meaning {
    const known = code === null ? undefined : this.#options.meanings[code];
    if (known !== undefined) return known;
    if (status === 401 || status === 403) return denied;
    if (status === 429) return { ...busy, didNothing: true };
    if (status === 408 || (status >= 500 && status !== 501)) return busy;
    if (status >= 300 && status < 400) return elsewhere;
    return { kind: "refused", sentence: "refused the request" };
  }
}

export const denied: Meaning = {
  kind: "denied",
  sentence: "denies access. Check the credentials and their permissions",
};
export const wrongKey: Meaning = {
  kind: "denied",
  sentence: "does not accept the credentials: they are wrong or have expired",
};
export const expired: Meaning = {
  kind: "denied",
  sentence: "says that the credentials have expired. Renew them",
};
export const skewed: Meaning = {
  kind: "denied",
  sentence: "says that the clock of this machine is wrong. Set the clock",
};
export const noBucket: Meaning = {
  kind: "no-bucket",
  sentence: "does not exist. Make it, or correct the URL",
};
export const busy: Meaning = { kind: "busy", sentence: "is busy. Try again later" };
/** It says so before it does anything. */
export const slowDown: Meaning = { ...busy, didNothing: true };
const elsewhere: Meaning = {
  kind: "refused",
  sentence: "is at another address. Correct the region or the endpoint",
};

/** The header has seconds or a date. */
function retryAfterMs({ headers }: HttpReply, platform: Platform): number | null {
  const text = headers.get("retry-after");
  if (text === null) return null;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - platform.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}

const decoder = new TextDecoder();

export const textOf = ({ body }: HttpReply): string => decoder.decode(body);

/** A code as errors may show it; anything else is somebody's text. */
export function plainCode(text: string | undefined | null): string | null {
  return text !== undefined && text !== null && /^\w{1,64}$/.test(text) ? text : null;
}

/** The contents of all elements of a name in one of the flat answers of S3 and Azure. */
export function xmlTexts(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map(([, text]) =>
    unescaped(text as string),
  );
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function unescaped(text: string): string {
  return text.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));/gi, (whole, decimal, hex, word: string) => {
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    return hex === undefined ? (entities[word] ?? whole) : String.fromCodePoint(Number.parseInt(hex, 16));
  });
}

/** Each byte but letters, digits and `-._~` as %XX; every provider reads and signs that. */
export function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

export const encodePath = (path: string): string => path.split("/").map(encodeSegment).join("/");

/** As it is sent and as it is signed: sorted, and a space is %20, where URLSearchParams would write "+". */
export function canonicalQuery(query: Iterable<readonly [string, string]>): string {
  return [...query]
    .map(([name, value]) => [encodeSegment(name), encodeSegment(value)] as const)
    .sort(([a, av], [b, bv]) => (a < b || (a === b && av < bv) ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");
}

/** The URL with these parameters and no others. */
export function withQuery(url: URL, query: Readonly<Record<string, string>>): URL {
  const asked = new URL(url);
  asked.search = canonicalQuery(Object.entries(query));
  return asked;
}

/** Runs the steps, up to N at once; after a failure no other is begun. */
export async function inLanes<T>(
  items: readonly T[],
  lanes: number,
  step: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let failed = false;
  const lane = async (): Promise<void> => {
    while (next < items.length && !failed) {
      try {
        await step(items[next++] as T);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, items.length) }, lane));
}

/** An endpoint as people write it, as a URL whose path ends with a slash. */
export function endpointUrl(text: string): URL {
  const withScheme = /^https?:\/\//i.test(text) ? text : `http://${text}`;
  const url = URL.canParse(withScheme) ? new URL(withScheme) : null;
  if (url === null || url.username !== "" || url.search !== "" || url.hash !== "") {
    const sentence =
      "the endpoint is no URL of a server: write it as https://host, without user, password or parameters";
    throw new ObjectsError("refused", sentence);
  }
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return url;
}
