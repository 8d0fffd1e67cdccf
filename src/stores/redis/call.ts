/** What every operation needs: the connection, what it knows of routes, and where hints go. */
import type { Hints } from "../../store/hints.ts";
import type { Connection } from "./connection.ts";
import type { RouteBook } from "./route-book.ts";

export interface Calls {
  readonly connection: Connection;
  readonly routes: RouteBook;
  tell(hints: Hints): void;
}
