/**
 * `stream`: the output of a job as its handler writes it. Readers follow it live by `mill.frames(id)`. Its functions
 * may be handed on: `onText: stream.write`.
 */
export interface JobStream {
  /**
   * Adds a frame: text, JSON, bytes, or whatever else the codec takes. It is durable about 20 ms later, before the
   * attempt ends and before the step that wrote it is recorded. Throws `payload-too-large` for a frame above the
   * payload limit and `output-full` above the limits of the output, unless the job's definition has `frames: { keep }`.
   *
   *     for await (const text of reply.texts) stream.write(text);
   */
  readonly write: (frame: unknown) => void;
  /** Merges a JSON merge patch (RFC 7386) into the summary of the output, which lists and `millrace show` have. */
  readonly summary: (patch: unknown) => void;
  /** Resolves once all that was written is durable, for a producer that should not run ahead of the store. */
  readonly flush: () => Promise<void>;
}
