/**
 * Object storage as the bucket store sees it: four verbs over named objects under one prefix. Each provider has one
 * client in stores/bucket/objects (memory.ts, files.ts, s3.ts, azure.ts, gcs.ts), and a caller may bring its own. All
 * of ours pass the same suite, test/objects/objects-suite.ts.
 *
 * What a client must keep:
 *
 *   - A stored object is whole and durable, and every later get and list of any process finds it.
 *   - Of several puts of one name with `ifAbsent`, at most one is answered with `stored`.
 *   - A failed verb is an ObjectsError. A client does not retry: retrying.ts does.
 */

export interface Objects {
  /** `exists` only with ifAbsent: the object is there already (perhaps our own, if a reply was lost). */
  put(name: string, bytes: Uint8Array, ifAbsent: boolean): Promise<"stored" | "exists">;
  /** null: no such object. */
  get(name: string): Promise<Uint8Array | null>;
  /**
   * One page of names with the prefix, in byte order, after the given name; `isLast` when no more follow. Every other
   * page has at least one name.
   */
  list(prefix: string, after: string | null): Promise<NamePage>;
  /** Deleting an absent object is no error. If it fails, some of the objects may be deleted. */
  remove(names: readonly string[]): Promise<void>;
  /**
   * For doctor: the rules by which the storage deletes objects of this store by itself, a sentence each; null if this
   * process may not read them. Absent if the storage does not say.
   */
  deletionRules?(): Promise<readonly string[] | null>;
  close(): Promise<void>;
}

export interface NamePage {
  readonly names: readonly string[];
  readonly isLast: boolean;
}

/**
 * - denied: credentials are wrong or expired, or a permission is missing.
 * - no-bucket: the bucket, container or folder does not exist.
 * - busy: the service asks to try again later.
 * - unreachable: no connection, a lost one, or no answer in time.
 * - refused: anything else. A retry does not help.
 */
export type ObjectsErrorKind = "denied" | "no-bucket" | "busy" | "unreachable" | "refused";

/** Whether a failed put or remove had an effect. A failed get or list never has one. */
export type ObjectsOutcome = "did-not-happen" | "unknown";

/** A failed verb. */
export class ObjectsError extends Error {
  override readonly name = "ObjectsError";
  readonly kind: ObjectsErrorKind;
  readonly outcome: ObjectsOutcome;
  /** How long the service asks to wait; null if it does not say. */
  readonly retryAfterMs: number | null;

  constructor(
    kind: ObjectsErrorKind,
    message: string,
    options: { outcome?: ObjectsOutcome; retryAfterMs?: number | null; cause?: unknown } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.kind = kind;
    this.outcome = options.outcome ?? "did-not-happen";
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}

/** The credentials of a bucket, from the environment or from a function. */
export type BucketCredentials = S3Credentials | AzureCredentials | GcsCredentials;

interface Expiring {
  /** New credentials are requested some minutes before; without it, only after a denial. */
  readonly expiration?: Date | undefined;
}

export interface S3Credentials extends Expiring {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/** One of the three: the key of the account, a shared access signature, or a token of Microsoft Entra. */
export interface AzureCredentials extends Expiring {
  readonly accountKey?: string | undefined;
  readonly sasToken?: string | undefined;
  readonly accessToken?: string | undefined;
}

export interface GcsCredentials extends Expiring {
  readonly accessToken: string;
}
