/** The connection in the caller's own thread: the shortest way for a single call, and the only one for a store in memory. */
import type { Runner } from "./executor.ts";
import { commitCalls } from "./commit.ts";
import type { Session } from "./commit.ts";

export function inlineRunner(session: Session, beforeClose: () => void): Runner {
  return {
    run: (calls, machineNow) => commitCalls(session, calls, machineNow),
    close() {
      beforeClose();
      session.database.close();
    },
  };
}
