/**
 * From a value to the Payload that a store keeps, and back: codec, then compression, then encryption.
 *
 *   {  [  "  0-9  -  t  f  n     standard JSON              ~...            tagged JSON
 *   =name:base64                 a custom codec's bytes     =name=text      a custom codec's text
 *   %base64                      compressed, any of the above
 *   !keyid:base64                encrypted, any of the above; a compressed text is inside as `%` and its raw bytes
 *
 * The first character names the form, so any reader can read what any writer wrote, whatever its own options are.
 * Always true: a payload is a well-formed string without NUL, and never longer than the limit, both before compression
 * and encryption and as stored; each layer occurs at most once, so nothing unwraps without end.
 */
import { isMillraceError } from "../model/error.ts";
import { checkOptions, checkWhole, invalidOption } from "../model/option.ts";
import { type Codec, payloadBytesCeiling } from "./codec.ts";
import { type CompressionOptions, createDeflate, inflate } from "./compression.ts";
import { createKeyRing, type EncryptionOptions, isKeyId, type KeyRing, unknownKey } from "./encryption.ts";
import { jsonCodec } from "./json-codec.ts";
import { notEncodable, tooLarge, unreadable } from "./refusal.ts";

export interface PayloadOptions {
  readonly codec?: Codec;
  /** Of the encoded value, and of the stored text. Default 1 MiB. */
  readonly maxBytes?: number;
  readonly encryption?: EncryptionOptions;
  readonly compression?: CompressionOptions;
}

export interface PayloadCoder {
  /** `what` ("input", "result") names the value in messages. */
  encode(value: unknown, what: string): string;
  decode(payload: string): unknown;
  /** Whether what it encodes is encrypted. */
  readonly isEncrypting: boolean;
}

const payloadBytesDefault = 1024 * 1024;

const EXCLAMATION = 0x21;
const PERCENT = 0x25;
const EQUALS = 0x3d;
const codecNamePattern = /^[a-z0-9-]{1,32}$/;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function createPayloadCoder(options: PayloadOptions = {}): PayloadCoder {
  checkOptions(options, "payload options", ["codec", "maxBytes", "encryption", "compression"]);
  const codec = checkCodec(options.codec ?? jsonCodec);
  const maxBytes = checkWhole(
    options.maxBytes ?? payloadBytesDefault,
    "payloadBytesMax",
    1,
    payloadBytesCeiling,
  );
  const keyRing = options.encryption === undefined ? undefined : createKeyRing(options.encryption);
  const deflate = options.compression === undefined ? undefined : createDeflate(options.compression);
  const hasLayers = keyRing !== undefined || deflate !== undefined;

  function encode(value: unknown, what: string): string {
    const text =
      codec === jsonCodec
        ? jsonCodec.encode(value, what, maxBytes)
        : encodeWith(codec, value, { what, maxBytes });
    checkSize(text, what, maxBytes);
    if (!hasLayers) return text;
    const payload = wrap(text);
    checkSize(payload, what, maxBytes);
    return payload;
  }

  function wrap(text: string): string {
    const bytes = Buffer.from(text, "utf8");
    const deflated = deflate?.(bytes);
    if (keyRing === undefined) return deflated === undefined ? text : `%${base64(deflated)}`;
    const cleartext = deflated === undefined ? bytes : Buffer.concat([Buffer.of(PERCENT), deflated]);
    return `!${keyRing.currentId}:${base64(keyRing.encrypt(cleartext))}`;
  }

  function decode(payload: string): unknown {
    switch (payload.charCodeAt(0)) {
      case EXCLAMATION:
        return decodeText(decodeUtf8(decrypt(payload, keyRing), maxBytes), codec);
      case PERCENT:
        return decodeText(utf8Text(inflate(fromBase64(payload.slice(1)), maxBytes)), codec);
      default:
        return decodeText(payload, codec);
    }
  }

  return { encode, decode, isEncrypting: keyRing !== undefined };
}

function checkCodec(codec: Codec): Codec {
  if (typeof codec?.encode !== "function" || typeof codec.decode !== "function") {
    throw invalidOption("codec must have the functions encode and decode.");
  }
  if (typeof codec.name !== "string" || !codecNamePattern.test(codec.name)) {
    throw invalidOption("codec.name must be 1 to 32 characters of a-z, 0-9 and -.");
  }
  return codec;
}

/** A character takes at most three bytes of UTF-8, so most payloads need no counting. */
function checkSize(text: string, what: string, maxBytes: number): void {
  if (text.length * 3 <= maxBytes) return;
  const bytes = Buffer.byteLength(text, "utf8");
  if (bytes > maxBytes) throw tooLarge(what, maxBytes, bytes);
}

function encodeWith(
  codec: Codec,
  value: unknown,
  use: { readonly what: string; readonly maxBytes: number },
): string {
  let encoded: unknown;
  try {
    encoded = codec.encode(value, use.what, use.maxBytes);
  } catch (cause) {
    if (isMillraceError(cause)) throw cause;
    throw notEncodable(`The codec ${codec.name} could not encode the ${use.what}: see the cause.`, { cause });
  }
  if (encoded instanceof Uint8Array) return `=${codec.name}:${base64(encoded)}`;
  if (typeof encoded !== "string") {
    throw notEncodable(`The codec ${codec.name} must return a string or a Uint8Array for the ${use.what}.`);
  }
  if (encoded.includes("\0") || !encoded.isWellFormed()) {
    throw notEncodable(
      `The codec ${codec.name} returned text with NUL or half a surrogate pair for the ${use.what}, which stores cannot hold: return bytes.`,
    );
  }
  return `=${codec.name}=${encoded}`;
}

function decodeText(text: string, codec: Codec): unknown {
  if (text.charCodeAt(0) !== EQUALS) return jsonCodec.decode(text);
  const [envelope, name, kind] = /^=([a-z0-9-]{1,32})([:=])/.exec(text) ?? [];
  if (envelope === undefined) throw unreadable("it does not name its codec");
  if (name !== codec.name)
    throw unreadable(`it was written by the codec ${name}, and this reader has ${codec.name}`);
  const content = text.slice(envelope.length);
  const encoded = kind === "=" ? content : fromBase64(content);
  try {
    return codec.decode(encoded);
  } catch (cause) {
    if (isMillraceError(cause)) throw cause;
    throw unreadable(`the codec ${codec.name} refused it, see the cause`, { cause });
  }
}

function decrypt(payload: string, keyRing: KeyRing | undefined): Uint8Array {
  const end = payload.indexOf(":");
  const keyId = payload.slice(1, end);
  if (end < 0 || !isKeyId(keyId)) throw unreadable("it does not name its key");
  if (keyRing === undefined) throw unknownKey(keyId);
  return keyRing.decrypt(keyId, fromBase64(payload.slice(end + 1)));
}

/** What was inside an encrypted payload: text, or `%` and the compressed bytes of a text. */
function decodeUtf8(bytes: Uint8Array, maxBytes: number): string {
  return utf8Text(bytes[0] === PERCENT ? inflate(bytes.subarray(1), maxBytes) : bytes);
}

function utf8Text(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw unreadable("it is not UTF-8");
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/** Buffer skips characters that are not base64, so the text is whole only if it comes out the same again. */
function fromBase64(text: string): Buffer {
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) throw unreadable("its base64 is damaged");
  return bytes;
}
