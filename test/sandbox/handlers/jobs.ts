// The jobs of the handlers here.
import { job } from "../../../src/engine/submit/job-definition.ts";

/** What the handler is to do. */
export interface Wish {
  do: string;
  value?: unknown;
}

export const everything = job<Wish>("everything", { retry: { attempts: 1 } });
/** No handler lists it. */
export const stranger = job<object>("stranger");
export const followUp = job<{ from: string }>("follow-up");
