/** What every operation needs: the connection, the call of the present turn, and where hints go. */
import type { OperationOf } from "../../store/bind-operations.ts";
import type { Hints } from "../../store/hints.ts";
import type { Store } from "../../store/store.ts";
import type { Connection } from "./connection.ts";
import type { TurnCall } from "./turn-call.ts";

export interface Calls {
  readonly connection: Connection;
  readonly turn: TurnCall;
  tell(hints: Hints): void;
}

export type Operation<Name extends keyof Store> = OperationOf<Calls, Name>;
