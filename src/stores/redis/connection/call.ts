/** What every operation needs: the connection, the call of the present flush, and where hints go. */
import type { OperationOf } from "../../../store/bind-operations.ts";
import type { Hints } from "../../../store/watch/hints.ts";
import type { Store } from "../../../store/store.ts";
import type { Connection } from "./connection.ts";
import type { FlushCall } from "./flush-call.ts";

export interface Calls {
  readonly connection: Connection;
  readonly flush: FlushCall;
  hint(hints: Hints): void;
}

export type Operation<Name extends keyof Store> = OperationOf<Calls, Name>;
