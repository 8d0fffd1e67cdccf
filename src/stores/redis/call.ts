/** What every operation needs: the connection, what it knows of routes and claims, and where hints go. */
import type { Hints } from "../../store/hints.ts";
import type { Connection } from "./connection.ts";
import type { Pairs } from "./pairs.ts";
import type { RouteBook } from "./route-book.ts";
import type { SentClaims } from "./sent-claims.ts";

export interface Calls {
  readonly connection: Connection;
  readonly routes: RouteBook;
  readonly claims: SentClaims;
  readonly pairs: Pairs;
  tell(hints: Hints): void;
}
