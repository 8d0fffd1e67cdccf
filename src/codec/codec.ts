/**
 * What a codec is: the step that turns a job's input or result into text or bytes, and back.
 *
 * It runs before any store is called (encode) and before the handler or the awaiting caller sees the value (decode).
 * What it returns never reaches a store as it is: the payload coder wraps it into a Payload, which is always a
 * well-formed string without NUL, so that SQLite, Postgres text columns and Redis can all store it by one rule.
 */

export interface Codec {
  /**
   * Written into each payload that the codec made, so that a reader knows which codec decodes it; `[a-z0-9-]`, at most
   * 32 characters.
   */
  readonly name: string;
  /**
   * `what` ("input", "result") starts the paths in messages. `maxBytes` lets a codec stop early; the payload coder
   * checks the outcome in any case, so a codec may ignore both.
   */
  encode(value: unknown, what?: string, maxBytes?: number): string | Uint8Array;
  /** Gets exactly what `encode` returned: a string for a string, bytes for bytes. */
  decode(payload: string | Uint8Array): unknown;
}

/** Containers inside containers; deeper values are refused, so that no walk over a value can exhaust the stack. */
export const depthMax = 200;

/**
 * The highest settable payload limit. V8 holds strings of up to 512 Mi characters; half of it leaves room for base64.
 */
export const payloadBytesCeiling = 256 * 1024 * 1024;
