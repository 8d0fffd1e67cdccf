/**
 * What a case opened is closed after it, passed or not: the last opened first, so that a mill ends before the store it
 * runs on.
 */
import { afterEach } from "vitest";

interface Closable {
  close(): Promise<unknown>;
}

/** @returns a function that takes what is to be closed and hands it back. */
export function closeAfterEach(): <Thing extends Closable>(thing: Thing) => Thing {
  const opened: Closable[] = [];
  afterEach(async () => {
    for (const thing of opened.splice(0).toReversed()) await thing.close();
  });
  return (thing) => {
    opened.push(thing);
    return thing;
  };
}
