/** Objects of one process that a test cuts off: its calls fail, or are never answered. */
import { ObjectsError } from "../../src/stores/bucket/objects/objects.ts";
import type { Objects } from "../../src/stores/bucket/objects/objects.ts";

export interface FaultyObjects extends Objects {
  /** Away: every call fails. Hung: none is answered. */
  state: "well" | "away" | "hung";
}

export function faultyObjects(objects: Objects): FaultyObjects {
  const pass = <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    if (faulty.state === "well") return call();
    if (faulty.state === "hung") return new Promise(() => undefined);
    return Promise.reject(new ObjectsError("unreachable", "The storage is away"));
  };
  const faulty: FaultyObjects = {
    state: "well",
    put: (name, bytes, ifAbsent) => pass(() => objects.put(name, bytes, ifAbsent)),
    get: (name) => pass(() => objects.get(name)),
    list: (prefix, after) => pass(() => objects.list(prefix, after)),
    remove: (names) => pass(() => objects.remove(names)),
    close: () => objects.close(),
  };
  return faulty;
}
