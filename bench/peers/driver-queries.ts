/**
 * Every query that the `pg` driver sends in this process and its answer, whoever sends it: the three systems on
 * Postgres share one driver. It is how queries of an idle worker are counted, and how the end of a job is known where
 * the peer tells it before the database has.
 */
import pg from "pg";

export interface SeenQuery {
  readonly text: string;
  readonly values: readonly unknown[];
}

export interface QueryWatch {
  sent?: () => void;
  answered?: (query: SeenQuery, result: { readonly rowCount: number | null }) => void;
}

type Ended = (error: unknown, result: { rowCount: number | null }) => void;
type AnyQuery = (this: pg.Client, ...given: unknown[]) => unknown;

export function watchQueries({ sent, answered }: QueryWatch): void {
  const prototype = pg.Client.prototype as unknown as { query: AnyQuery };
  const { query } = prototype;
  prototype.query = function (...given) {
    sent?.();
    if (answered === undefined) return query.apply(this, given);
    const last = given.at(-1);
    if (typeof last === "function") {
      const ended: Ended = (error, result) => {
        if (!error) answered(seen(given), result);
        (last as Ended)(error, result);
      };
      return query.apply(this, [...given.slice(0, -1), ended]);
    }
    const answer = query.apply(this, given) as Promise<{ rowCount: number | null }>;
    return answer.then((result) => {
      answered(seen(given), result);
      return result;
    });
  };
}

function seen([first, second]: readonly unknown[]): SeenQuery {
  if (typeof first === "string") return { text: first, values: Array.isArray(second) ? second : [] };
  const { text, values } = first as { text: string; values?: unknown[] };
  return { text, values: values ?? [] };
}
