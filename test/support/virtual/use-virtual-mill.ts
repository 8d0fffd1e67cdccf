/** A Millrace on virtual time for each case of a file or a describe block, with the hooks that open and close it. */
import { afterEach, beforeEach } from "vitest";
import { openVirtualMill } from "./virtual-mill.ts";
import type { VirtualMill } from "./virtual-mill.ts";

export interface CaseMill extends VirtualMill {
  /** Another one for the rest of the case, with options of its own. */
  reopen(...given: Parameters<typeof openVirtualMill>): Promise<void>;
}

export function useVirtualMill(...given: Parameters<typeof openVirtualMill>): CaseMill {
  let v: VirtualMill;
  beforeEach(async () => {
    v = await openVirtualMill(...given);
  });
  afterEach(() => v.close());
  return {
    get mill() {
      return v.mill;
    },
    get store() {
      return v.store;
    },
    get platform() {
      return v.platform;
    },
    run: (promise) => v.run(promise),
    advance: (ms) => v.advance(ms),
    close: () => v.close(),
    async reopen(...others) {
      await v.close();
      v = await openVirtualMill(...others);
    },
  };
}
