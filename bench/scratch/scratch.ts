/** Places for stores of one run of the bench: files, databases or prefixes, gone when it ends. */

export interface Scratch {
  open(): Promise<void>;
  /** A new, empty place. */
  fresh(): Promise<string>;
  /** A place was filled by hand: what a store in use would know of it by now is made known. */
  filled(place: string): Promise<void>;
  /** A filled place is made once and copied for every round, so each round starts from the same bytes. */
  copyOf(place: string): Promise<string>;
  remove(place: string): Promise<void>;
  /** A reader that began now and goes on reading until it is released. */
  holdReader(place: string): Promise<{ release(): Promise<void> }>;
  /** Memory that the server uses for everything it holds. */
  memoryBytes(): Promise<number>;
  /** Leaves nothing behind. */
  close(): Promise<void>;
  /** The same at once, when the process is ending. */
  abandon(): void;
}
