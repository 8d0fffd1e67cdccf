/**
 * The caller's own four verbs, held to what `store/objects.ts` asks of them. An answer that is none of the answers must
 * not pass for a stored object. An error of another class does not end the store: a put that threw it may have
 * happened, so it is tried again.
 */
import { checkName, ObjectsError } from "./objects.ts";
import type { NamePage, Objects, ObjectsOutcome } from "./objects.ts";

/** `prefix` comes before each name: the caller's objects know of none. */
export function ownObjects(objects: Objects, prefix: string): Objects {
  const rules = prefix === "" ? objects.deletionRules?.bind(objects) : undefined;
  return {
    async put(name, bytes, ifAbsent) {
      const whole = prefix + checkName(name);
      return held("put", "unknown", isPutAnswer, () => objects.put(whole, bytes, ifAbsent));
    },
    async get(name) {
      const whole = prefix + checkName(name);
      return held("get", "did-not-happen", isGetAnswer, () => objects.get(whole));
    },
    async list(begin, after): Promise<NamePage> {
      const from = after === null ? null : prefix + after;
      const page = await held("list", "did-not-happen", isPage, () => objects.list(prefix + begin, from));
      return { ...page, names: page.names.map((name) => name.slice(prefix.length)) };
    },
    async remove(names) {
      const whole = names.map((name) => prefix + checkName(name));
      await held(
        "remove",
        "unknown",
        () => true,
        () => objects.remove(whole),
      );
    },
    ...(rules === undefined ? {} : { deletionRules: rules }),
    close: () => objects.close(),
  };
}

async function held<Answer>(
  verb: string,
  outcome: ObjectsOutcome,
  isAnswer: (answer: unknown) => boolean,
  call: () => Promise<Answer>,
): Promise<Answer> {
  const failed = (what: string, cause?: unknown): ObjectsError =>
    new ObjectsError("refused", `bucket.objects.${verb} ${what}`, { outcome, cause });
  let answer: Answer;
  try {
    answer = await call();
  } catch (error) {
    if (error instanceof ObjectsError) throw error;
    throw failed(`threw an error that is no ObjectsError: ${String(error)}`, error);
  }
  if (isAnswer(answer)) return answer;
  throw failed("gave an answer that is none of its answers");
}

const isPutAnswer = (answer: unknown): boolean => answer === "stored" || answer === "exists";

const isGetAnswer = (answer: unknown): boolean => answer === null || answer instanceof Uint8Array;

function isPage(answer: unknown): boolean {
  const { names, isLast } = (answer ?? {}) as Partial<NamePage>;
  return (
    Array.isArray(names) && names.every((name) => typeof name === "string") && typeof isLast === "boolean"
  );
}
