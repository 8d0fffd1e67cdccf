/**
 * The commits of a simulated run, by name, and the store as a process that may be killed sees it: from the kill on none
 * of its calls reaches the store, and no answer reaches it.
 */
import { MillraceError } from "../model/error.ts";
import type { Store, Unwatch } from "../store/store.ts";

/** The calls that write, by what they are called in crash points. */
const commitNames: Readonly<Record<string, string>> = {
  submit: "submit",
  claim: "claim",
  settleIfLeased: "settle",
  recordIfLeased: "record",
  changeIf: "change",
  promoteDue: "promote",
  putDocs: "docs",
  putGates: "gates",
};

export interface CrashPoint {
  /** The kind of the commit and its number among those of its kind, from 1 on: `settle#3`. */
  readonly commit: string;
  readonly when: "before" | "after";
}

export function crashPointName({ commit, when }: CrashPoint): string {
  return `${commit} ${when}`;
}

export function readCrashPoint(text: unknown): CrashPoint {
  const [, commit, kind, when] =
    (typeof text === "string" ? /^((\w+)#[1-9]\d*) (before|after)$/.exec(text) : null) ?? [];
  if (commit === undefined || !Object.values(commitNames).includes(kind as string))
    throw new MillraceError(
      "invalid-option",
      'simulate: crashAt must be a crash point such as "settle#3 after".',
    );
  return { commit, when: when as CrashPoint["when"] };
}

/** Numbers the commits of a run, and kills its worker process at one of them. */
export class CommitCounter {
  /** Commits that have changed something, in the order of their calls. */
  readonly commits = new Set<string>();
  readonly #crash: CrashPoint | null;
  readonly #kill: () => void;
  readonly #counts = new Map<string, number>();
  wasReached = false;

  constructor(crash: CrashPoint | null, kill: () => void) {
    this.#crash = crash;
    this.#kill = kill;
  }

  /** @param mayBegin asked after the kill: the call of a killed process does not begin. */
  async call<Answer>(
    operation: string,
    invoke: () => Promise<Answer>,
    mayBegin: () => boolean,
  ): Promise<Answer | null> {
    const kind = commitNames[operation];
    if (kind === undefined) return invoke();
    const number = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, number);
    const commit = `${kind}#${number}`;
    const isPoint = this.#crash?.commit === commit;
    if (isPoint) this.wasReached = true;
    if (isPoint && this.#crash?.when === "before") this.#kill();
    if (!mayBegin()) return null;
    this.commits.add(commit);
    const answer = await invoke();
    if (isPoint && this.#crash?.when === "after") this.#kill();
    if (changedNothing(answer)) this.commits.delete(commit);
    return answer;
  }
}

/** A claim or a promotion that found no job. */
function changedNothing(answer: unknown): boolean {
  const { jobs, count } = answer as { readonly jobs?: readonly unknown[]; readonly count?: number };
  return jobs?.length === 0 || count === 0;
}

/** The store of one process. */
export class ProcessStore {
  readonly store: Store;
  readonly #unwatch = new Set<Unwatch>();
  #isKilled = false;

  constructor(inner: Store, counter: CommitCounter) {
    const gated = <Operations extends object>(operations: Operations): Operations =>
      Object.fromEntries(
        Object.entries(operations).map(([name, operation]: [string, unknown]) => [
          name,
          typeof operation === "function"
            ? (...given: unknown[]) =>
                this.#call(counter, name, () => operation(...given) as Promise<unknown>)
            : operation,
        ]),
      ) as Operations;
    this.store = {
      ...gated(inner),
      watch: (listener) => {
        const unwatch = inner.watch((hint) => {
          if (!this.#isKilled) listener(hint);
        });
        this.#unwatch.add(unwatch);
        return () => {
          this.#unwatch.delete(unwatch);
          unwatch();
        };
      },
      inTransaction: (connection) => gated(inner.inTransaction(connection)),
      // The store outlives its processes.
      close: () => Promise.resolve(),
    };
  }

  kill(): void {
    this.#isKilled = true;
    for (const unwatch of this.#unwatch) unwatch();
  }

  #call(counter: CommitCounter, operation: string, invoke: () => Promise<unknown>): Promise<unknown> {
    if (this.#isKilled) return new Promise(() => undefined);
    return new Promise((resolve, reject) => {
      counter
        .call(operation, invoke, () => !this.#isKilled)
        .then(
          (answer) => (this.#isKilled ? undefined : resolve(answer)),
          (error: unknown) => (this.#isKilled ? undefined : reject(error as Error)),
        );
    });
  }
}
