/** The connection in the caller's own thread: the shortest way for a single call, and the only one for a store in memory. */
import type { Runner } from "./executor.ts";
import { runGroup } from "./group.ts";
import type { Session } from "./group.ts";

export function inlineRunner(session: Session, beforeClose: () => void): Runner {
  return {
    run: (calls, machineNow) => runGroup(session, calls, machineNow),
    close() {
      beforeClose();
      session.database.close();
    },
  };
}
