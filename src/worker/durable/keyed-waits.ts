/**
 * The open waits of a run at business keys, for one stay. A wait is registered before the journal says that it is open,
 * and the registration is deleted before the journal says that it is over. Each stay registers again what it finds open
 * when the run rests, so a registration that was lost is there again. A run without such waits makes no call.
 */
import { endWait, registerWait } from "../../engine/durable/keyed-signals.ts";
import type { Address } from "../../engine/durable/keyed-signals.ts";
import type { Needs } from "../../engine/services.ts";
import { endsWait } from "../../model/durable/run-steps.ts";
import type { EntryBody } from "../../model/durable/journal-entry.ts";

export class KeyedWaits {
  readonly #needs: Needs<"store" | "changes">;
  readonly #run: { readonly run: string; readonly round: number };
  readonly #open = new Map<string, Address>();
  readonly #registered = new Set<string>();

  constructor(needs: Needs<"store" | "changes">, run: { readonly run: string; readonly round: number }) {
    this.#needs = needs;
    this.#run = run;
  }

  /** Entries that the journal has. */
  note(entries: readonly { readonly body: EntryBody }[]): void {
    for (const { body } of entries) {
      const opened = openedBy(body);
      if (opened !== null) this.#open.set(...opened);
      else for (const call of this.#closedBy(body)) this.#open.delete(call);
    }
  }

  /** Before these entries are appended. */
  async prepare(entries: readonly { readonly body: EntryBody }[]): Promise<void> {
    for (const { body } of entries) {
      const opened = openedBy(body);
      if (opened !== null) await this.#register(...opened);
      else
        for (const call of this.#closedBy(body)) {
          await endWait(this.#needs, this.#open.get(call) as Address, { ...this.#run, call });
          this.#registered.delete(call);
        }
    }
  }

  /** Before the run rests. */
  async prepareRest(): Promise<void> {
    for (const [call, address] of this.#open) await this.#register(call, address);
  }

  async #register(call: string, address: Address): Promise<void> {
    this.#open.set(call, address);
    if (this.#registered.has(call)) return;
    await registerWait(this.#needs, address, { ...this.#run, call });
    this.#registered.add(call);
  }

  #closedBy(body: EntryBody): readonly string[] {
    return this.#open.size === 0 ? [] : [...this.#open.keys()].filter((call) => endsWait(body, call));
  }
}

function openedBy(body: EntryBody): readonly [call: string, address: Address] | null {
  if (body.kind !== "opened" || body.businessKey === undefined) return null;
  return [body.call, { name: body.signal ?? "", businessKey: body.businessKey }];
}
