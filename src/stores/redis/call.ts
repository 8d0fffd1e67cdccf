/** What every operation needs: the connection, what it knows of claims, and where hints go. */
import type { Hints } from "../../store/hints.ts";
import type { Connection } from "./connection.ts";
import type { SentClaims } from "./sent-claims.ts";

export interface Calls {
  readonly connection: Connection;
  readonly claims: SentClaims;
  tell(hints: Hints): void;
}
