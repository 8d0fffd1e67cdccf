/**
 * The submits, settles and claims of one flush travel as one call (flush.lua.ts): a job on an idle queue goes to its
 * worker by one exchange with the server. What is asked for waits until the flush's calls are made, and no longer;
 * docs/decisions/0021 has the figures. A claim after many jobs travels apart, right after them: this process reads
 * their answers while the server claims.
 */
import type { Hints } from "../../../store/watch/hints.ts";
import type { Connection } from "./connection.ts";
import { readHints } from "../feed/hint-text.ts";

interface Operation {
  readonly name: "submit" | "settle" | "claim";
  readonly args: readonly string[];
  /** The routes of a claim. */
  readonly routes: readonly number[];
  readonly answered: (answer: unknown) => void;
  readonly failed: (error: unknown) => void;
}

/** With more arguments than about ten settles have, the others of a flush are many. */
const fewArgsMax = 40;

/** What comes before the claims of its flush. */
const isOfJobs = ({ name }: Operation): boolean => name === "submit" || name === "settle";

export class FlushCall {
  readonly #connection: Connection;
  readonly #hint: (hints: Hints) => void;
  /** How many calls were sent, and by route the last of them that claimed there. */
  #sent = 0;
  readonly #claimed = new Map<number, number>();
  #operations: Operation[] = [];

  constructor(connection: Connection, hint: (hints: Hints) => void) {
    this.#connection = connection;
    this.#hint = hint;
  }

  call(name: Operation["name"], args: readonly string[], routes: readonly number[] = []): Promise<unknown> {
    return new Promise((answered, failed) => {
      if (this.#operations.push({ name, args, routes, answered, failed }) === 1) queueMicrotask(this.#send);
    });
  }

  readonly #send = (): void => {
    const operations = this.#operations;
    this.#operations = [];
    if (operations.length === 1) return this.#sendTogether(operations);
    // Claims come last, so that they see the jobs of this flush.
    const claims = operations.filter((operation) => !isOfJobs(operation));
    const others = operations.filter(isOfJobs);
    const isMany = others.some(({ args }) => args.length > fewArgsMax);
    for (const calls of isMany ? [others, claims] : [[...others, ...claims]])
      if (calls.length > 0) this.#sendTogether(calls);
  };

  #sendTogether(operations: readonly Operation[]): void {
    const number = ++this.#sent;
    let args: string[] = [];
    for (const { name, args: own, routes } of operations) {
      args = args.concat(name, String(own.length), own);
      for (const route of routes) this.#claimed.set(route, number);
    }
    this.#connection.write("mr1_lap", args).then(
      (answer) => this.#answered(operations, number, answer as [unknown, unknown[]]),
      (error: unknown) => {
        for (const { failed } of operations) failed(error);
      },
    );
  }

  #answered(
    operations: readonly Operation[],
    number: number,
    [hintText, answers]: [unknown, unknown[]],
  ): void {
    const hints = readHints(hintText);
    // Calls arrive in the order in which they were sent, so a claim sent with or after this call sees its jobs: the
    // hint that they are ready would only make the worker claim once more, for nothing. A claim that came back full is
    // repeated by the worker anyway.
    for (const route of hints.routes)
      if ((this.#claimed.get(route) ?? 0) >= number) hints.routes.delete(route);
    this.#hint(hints);
    for (const [index, { answered, failed }] of operations.entries()) {
      const answer = answers[index];
      if (answer instanceof Error) failed(this.#connection.refusalOf(answer));
      else answered(answer);
    }
  }
}
