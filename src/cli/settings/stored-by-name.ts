/** What else schedules, topics and webhooks share: each is found by its name or refused, and can be deleted. */
import type { Millrace } from "../../client/millrace.ts";
import { MillraceError } from "../../model/error.ts";

interface Service<View> {
  get(name: string): Promise<View | null>;
  delete(name: string): Promise<boolean>;
}

export function storedByName<View>(
  noun: "schedule" | "topic" | "webhook",
  serviceOf: (mill: Millrace) => Service<View>,
) {
  const get = async (mill: Millrace, name: string): Promise<View> => {
    const view = await serviceOf(mill).get(name);
    if (view !== null) return view;
    const problem = `There is no ${noun} ${JSON.stringify(name)}; millrace ${noun}s shows all that there are.`;
    throw new MillraceError(`unknown-${noun}`, problem);
  };
  return {
    get,
    /** @returns what it was. */
    delete: async (mill: Millrace, name: string): Promise<View> => {
      const last = await get(mill, name);
      await serviceOf(mill).delete(name);
      return last;
    },
  };
}
