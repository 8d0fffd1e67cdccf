/**
 * The compression layer of a payload: between the codec and encryption, only above a threshold and only when it
 * shrinks.
 *
 * zlib format at level 1 (fast): its checksum costs 6 bytes and finds damage that raw deflate would decode into
 * something else. Inflating is always bounded, so a small payload that would inflate without end is refused as
 * unreadable.
 */
import { deflateSync, inflateSync } from "node:zlib";
import { checkOptions, checkWhole } from "../model/option.ts";
import { unreadable } from "./refusal.ts";

export interface CompressionOptions {
  /** Shorter encoded values stay as they are, readable in SQL. Default 1,024. */
  readonly thresholdBytes?: number;
  /** zlib's level, 1 (fast) to 9 (small). Default 1. */
  readonly level?: number;
}

/**
 * A lower limit than the writer's must not make stored payloads unreadable, so inflating is bounded by the larger of
 * this and the reader's own limit.
 */
const INFLATE_BYTES_MIN = 16 * 1024 * 1024;

type Deflate = (bytes: Uint8Array) => Uint8Array | undefined;

/** Answers undefined when the bytes are below the threshold or would not shrink. */
export function createDeflate(options: CompressionOptions): Deflate {
  checkOptions(options, "compression", ["thresholdBytes", "level"]);
  const thresholdBytes = checkWhole(options.thresholdBytes ?? 1024, "compression.thresholdBytes", 0, 2 ** 31);
  const level = checkWhole(options.level ?? 1, "compression.level", 1, 9);
  return (bytes) => {
    if (bytes.length < thresholdBytes) return undefined;
    const deflated = deflateSync(bytes, { level });
    // Stored as base64, the bytes grow by a third.
    return Math.ceil(deflated.length / 3) * 4 + 1 < bytes.length ? deflated : undefined;
  };
}

export function inflate(bytes: Uint8Array, maxBytes: number): Uint8Array {
  const maxOutputLength = Math.max(maxBytes, INFLATE_BYTES_MIN);
  try {
    return inflateSync(bytes, { maxOutputLength });
  } catch (cause) {
    const isBomb = (cause as { code?: unknown }).code === "ERR_BUFFER_TOO_LARGE";
    throw unreadable(
      isBomb ? `it inflates to more than ${maxOutputLength} bytes` : "its compressed form is damaged",
      { cause },
    );
  }
}
