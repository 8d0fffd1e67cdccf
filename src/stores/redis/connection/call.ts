/** What every operation needs: the connection, the call of the present lap, and where hints go. */
import type { OperationOf } from "../../../store/bind-operations.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import type { Store } from "../../../store/store.ts";
import type { Connection } from "./connection.ts";
import type { LapCall } from "./flush-call.ts";

export interface Calls {
  readonly connection: Connection;
  readonly lap: LapCall;
  tell(hints: Hints): void;
}

export type Operation<Name extends keyof Store> = OperationOf<Calls, Name>;
