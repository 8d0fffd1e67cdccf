/**
 * The credentials of a client: asked for when they are first needed, again some minutes before they expire, and once
 * more after a denial. Calls that need them at the same time share one asking.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { ObjectsError } from "../../../store/objects.ts";

/** So long before the end of the old ones new ones are asked for. */
const aheadMs = 5 * 60_000;
/** A missing permission denies every call; the function is not asked for each of them. */
const denialEveryMs = 10_000;

export class CredentialSource<Credentials extends { readonly expiration?: Date | undefined }> {
  readonly #platform: Platform;
  readonly #ask: () => Promise<Credentials>;
  readonly #kinds: readonly (readonly string[])[];
  #known: Credentials | null = null;
  #asking: Promise<Credentials> | null = null;
  #deniedUs = Number.NEGATIVE_INFINITY;

  /** `kinds`: the fields of each kind of credentials that the provider takes. */
  constructor(
    platform: Platform,
    ask: () => Promise<Credentials>,
    kinds: readonly (readonly (keyof Credentials & string)[])[],
  ) {
    this.#platform = platform;
    this.#ask = ask;
    this.#kinds = kinds;
  }

  async current(): Promise<Credentials> {
    const known = this.#known;
    const leftMs = (known?.expiration?.getTime() ?? Number.POSITIVE_INFINITY) - this.#platform.now();
    if (known !== null && leftMs > aheadMs) return known;
    try {
      return await this.#renew();
    } catch (error) {
      // The old ones still serve for some minutes.
      if (known !== null && leftMs > 0) return known;
      throw error;
    }
  }

  /** These were denied. @returns whether others are there, so that a second try is worth it. */
  async hasOthers(denied: Credentials): Promise<boolean> {
    if (this.#known !== denied) return this.#known !== null;
    const nowUs = this.#platform.monotonicUs();
    if (nowUs - this.#deniedUs < denialEveryMs * 1000) return false;
    this.#deniedUs = nowUs;
    const before = JSON.stringify(denied);
    return JSON.stringify(await this.#renew()) !== before;
  }

  #renew(): Promise<Credentials> {
    this.#asking ??= this.#askWhole()
      .then((credentials) => (this.#known = credentials))
      .catch((error: unknown) => {
        if (error instanceof ObjectsError || error instanceof MillraceError) throw error;
        const sentence = "The function bucket.credentials failed, so the bucket was not asked";
        throw new ObjectsError("denied", sentence, { cause: error });
      })
      .finally(() => (this.#asking = null));
    return this.#asking;
  }

  /** The caller's function may give anything. */
  async #askWhole(): Promise<Credentials> {
    const given = ((await this.#ask()) ?? {}) as Credentials & Readonly<Record<string, unknown>>;
    const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
    const isWhole = this.#kinds.some((fields) => fields.every((field) => isText(given[field])));
    const { expiration } = given;
    const isTimed = expiration === undefined || Number.isFinite((expiration as Partial<Date>).getTime?.());
    if (isWhole && isTimed) return given;
    const kinds = this.#kinds.map((fields) => fields.join(" and ")).join(", or ");
    const what = isWhole ? "an expiration that is no Date" : `no credentials: they need ${kinds}`;
    throw new ObjectsError("denied", `the function bucket.credentials gave ${what}`);
  }
}

/** Nothing in the environment either. */
export function noCredentials(service: string, variables: string): ObjectsError {
  return new ObjectsError(
    "denied",
    `there are no credentials for ${service}: set ${variables}, or give the option bucket.credentials`,
  );
}
