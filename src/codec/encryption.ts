/**
 * The encryption layer of a payload: AES-256-GCM with a ring of keys, the last step before a store sees it.
 *
 *   plaintext  ->  key id, and  nonce (12 bytes) | ciphertext | tag (16 bytes)
 *
 * Rotation: add a key, make it `current`, keep the old ones until no payload names them. A random nonce is safe for
 * about 2^32 payloads per key; rotate before that. No additional authenticated data: a reader does not always know
 * which job and field a payload belongs to, so somebody who can write to the store can swap whole payloads, but cannot
 * read or alter one. Payloads from before encryption was switched on stay readable.
 */
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type KeyObject,
  randomFillSync,
} from "node:crypto";
import { MillraceError } from "../model/error.ts";
import { checkOptions, invalidOption } from "../model/option.ts";
import { unreadable } from "./refusal.ts";

export interface EncryptionOptions {
  /** The id of the key that new payloads are encrypted with. */
  readonly current: string;
  /** By id (`[A-Za-z0-9_.-]`, at most 64 characters): 32 bytes, or the same as 64 hex or as base64 characters. */
  readonly keys: Readonly<Record<string, Uint8Array | string>>;
  /** Where nonces come from; given by simulations only. It must never repeat an answer under one key. */
  readonly randomBytes?: (count: number) => Uint8Array;
}

export interface KeyRing {
  readonly currentId: string;
  encrypt(cleartext: Uint8Array): Uint8Array;
  decrypt(keyId: string, sealed: Uint8Array): Uint8Array;
}

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const keyIdPattern = /^[A-Za-z0-9_.-]{1,64}$/;

export function createKeyRing(options: EncryptionOptions): KeyRing {
  checkOptions(options, "encryption", ["current", "keys", "randomBytes"]);
  checkOptions(options.keys, "encryption.keys", Object.keys(options.keys ?? {}));
  const keys = new Map(Object.entries(options.keys).map(([id, key]) => [id, readKey(id, key)]));
  const currentId = options.current;
  const currentKey = keys.get(currentId);
  if (currentKey === undefined)
    throw invalidOption("encryption.current must be the id of one of encryption.keys.");
  const randomBytes = options.randomBytes ?? ((count: number) => randomFillSync(new Uint8Array(count)));
  if (typeof randomBytes !== "function") throw invalidOption("encryption.randomBytes must be a function.");

  return {
    currentId,
    encrypt(cleartext) {
      const nonce = randomBytes(NONCE_BYTES);
      if (nonce.length !== NONCE_BYTES)
        throw invalidOption("encryption.randomBytes must return as many bytes as it is asked for.");
      const cipher = createCipheriv(CIPHER, currentKey, nonce, { authTagLength: TAG_BYTES });
      const body = cipher.update(cleartext);
      cipher.final();
      return Buffer.concat([nonce, body, cipher.getAuthTag()]);
    },
    decrypt(keyId, sealed) {
      const key = keys.get(keyId);
      if (key === undefined) throw unknownKey(keyId);
      if (sealed.length < NONCE_BYTES + TAG_BYTES) throw unreadable("its encrypted form is cut off");
      const tagStart = sealed.length - TAG_BYTES;
      const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAuthTag(sealed.subarray(tagStart));
      const cleartext = decipher.update(sealed.subarray(NONCE_BYTES, tagStart));
      try {
        decipher.final();
      } catch {
        throw unreadable(
          `it does not authenticate with the key ${JSON.stringify(keyId)}, so it was altered or the key is another one`,
        );
      }
      return cleartext;
    },
  };
}

export function isKeyId(text: string): boolean {
  return keyIdPattern.test(text);
}

export function unknownKey(keyId: string): MillraceError {
  const id = JSON.stringify(keyId);
  return new MillraceError(
    "unknown-key",
    `The payload was encrypted with the key ${id}: add it to encryption.keys to read it.`,
  );
}

/** The key becomes a KeyObject, whose copy of the bytes no log or inspection shows. */
function readKey(id: string, key: unknown): KeyObject {
  if (!isKeyId(id))
    throw invalidOption(
      "A key id in encryption.keys must be 1 to 64 characters of A-Z, a-z, 0-9, _, . and -.",
    );
  const bytes = typeof key === "string" ? readKeyText(key) : key;
  if (!(bytes instanceof Uint8Array) || bytes.length !== KEY_BYTES) {
    throw invalidOption(
      `encryption.keys[${JSON.stringify(id)}] must be 32 bytes, or the same as 64 hex or as base64 characters.`,
    );
  }
  return createSecretKey(bytes);
}

function readKeyText(text: string): Uint8Array | undefined {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, "hex");
  return /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? Buffer.from(text, "base64") : undefined;
}
