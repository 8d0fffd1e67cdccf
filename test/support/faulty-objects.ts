/** Objects of one process that a test cuts off: its calls fail, or are never answered. */
import { ObjectsError } from "../../src/stores/bucket/objects/objects.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";

export interface FaultyObjects extends Objects {
  /** Away: every call fails. Hung: none is answered before it is well again. */
  state: "well" | "away" | "hung";
  /** It is well again, and does what hung. */
  heal(): void;
}

export function faultyObjects(objects: Objects): FaultyObjects {
  const hung: (() => Promise<void>)[] = [];
  const pass = <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    if (faulty.state === "well") return call();
    if (faulty.state === "hung")
      return new Promise((resolve, reject) => hung.push(() => call().then(resolve, reject)));
    return Promise.reject(new ObjectsError("unreachable", "The storage is away"));
  };
  const faulty: FaultyObjects = {
    state: "well",
    put: (name, bytes, ifAbsent) => pass(() => objects.put(name, bytes, ifAbsent)),
    get: (name) => pass(() => objects.get(name)),
    list: (prefix, after) => pass(() => objects.list(prefix, after)),
    remove: (names) => pass(() => objects.remove(names)),
    close: () => objects.close(),
    heal() {
      faulty.state = "well";
      for (const call of hung.splice(0)) void call();
    },
  };
  return faulty;
}
