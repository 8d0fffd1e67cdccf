/**
 * The handle of code that runs outside this event loop, in a thread or a child process: text goes both ways, what is
 * printed there comes here, and it can be ended with all that it has started. What the text means is not known here.
 */

export interface ChildHandle {
  /** Never throws: what cannot be sent any more is reported by `ended`, or by `broken`. */
  send(text: string): void;
  /** Nothing more will be sent. */
  hangUp(): void;
  /** SIGTERM to all of it; nothing for a thread. */
  terminate(): void;
  /** Ends it with all that it has started. Resolves when nothing of it is left. */
  kill(): Promise<void>;
  /** Ends what is left in its process group, once it has ended by itself. */
  sweep(): void;
  /** What it has in memory; null if that is unknown. */
  memoryBytes(): Promise<number | null>;
  /** Such as "process 4711". */
  readonly title: string;
}

export interface ChildListener {
  /** A piece of text: bytes may end in the middle of a line or of a character, a string never does. */
  said(piece: Buffer | string): void;
  printed(stream: "stdout" | "stderr", piece: Buffer): void;
  /** It does not take text any more, although it has not ended. */
  broken(error: Error): void;
  /** It has ended, although what it printed may not be in yet. */
  ending(): void;
  /** Once, and after everything that was said and printed. */
  ended(end: ChildEnd): void;
}

export interface ChildEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** What it died of: it could not be started, threw, or ran out of memory. */
  readonly error: Error | null;
}
