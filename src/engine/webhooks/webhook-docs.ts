/**
 * The documents of webhooks: one of all hooks, and for each hook how far the feed is read for it (its **position**).
 * All of them, and the deliveries, lie in one partition (model/events/webhook.ts).
 */
import { MillraceError } from "../../model/error.ts";
import { hookId, readWebhooks, webhooksId, writeWebhooks } from "../../model/events/webhook.ts";
import type { Webhook } from "../../model/events/webhook.ts";
import type { DocGuard, DocPut } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { Listeners } from "../listeners.ts";
import { changePut } from "../fleet/change-numbers.ts";

export const webhookKind = "webhook";
const positionKind = "webhook-position";
const triesMax = 100;

export interface FoundWebhooks {
  /** 0 where there are none. */
  readonly version: number;
  readonly hooks: readonly Webhook[];
}

/** How far the feed is read for a hook. */
export interface HookPosition {
  /** A cursor of events. */
  readonly cursor: string;
  /** How often events went by that were no longer kept when it was their turn. */
  readonly gaps: number;
}

export class WebhookDocs {
  readonly #store: Pick<Store, "readDocs" | "putDocs">;
  /** The webhooks were changed, by this process or by another one. */
  readonly changed = new Listeners();

  constructor(store: Pick<Store, "readDocs" | "putDocs">) {
    this.#store = store;
  }

  async find(store = this.#store): Promise<FoundWebhooks> {
    const { docs } = await store.readDocs({ kind: webhookKind, ids: [webhooksId] });
    const [doc] = docs;
    return doc === undefined
      ? { version: 0, hooks: [] }
      : { version: doc.version, hooks: readWebhooks(doc.body) };
  }

  /**
   * Changes the hooks under their version. @param decide the new list; null for no change. @param store as one call of
   * a caller sees it.
   */
  async change(
    decide: (hooks: readonly Webhook[]) => readonly Webhook[] | null,
    store = this.#store,
  ): Promise<readonly Webhook[]> {
    for (let tries = 0; tries < triesMax; tries++) {
      const { version, hooks } = await this.find(store);
      const next = decide(hooks);
      if (next === null) return hooks;
      const guard = version === 0 ? ("absent" as const) : { version };
      const put = { kind: webhookKind, id: webhooksId, body: writeWebhooks(next), guard };
      const [answer] = await store.putDocs([put, changePut("webhooks")]);
      if (answer?.kind !== "ok") continue;
      this.changed.emit();
      return next;
    }
    throw new MillraceError("version-conflict", "The webhooks change all the time; try again.");
  }

  async positions(
    names: readonly string[],
    store = this.#store,
  ): Promise<ReadonlyMap<string, HookPosition & { readonly version: number }>> {
    const { docs } = await store.readDocs({ kind: positionKind, ids: names.map(hookId) });
    return new Map(
      docs.map(({ id, version, body }) => [
        id.slice(webhooksId.length),
        { version, ...(JSON.parse(body) as HookPosition) },
      ]),
    );
  }
}

/** @param position null deletes it. */
export function positionPut(name: string, position: HookPosition | null, guard: DocGuard): DocPut {
  return {
    kind: positionKind,
    id: hookId(name),
    body: position === null ? null : JSON.stringify(position),
    guard,
  };
}

export function unknownWebhook(name: string): MillraceError {
  return new MillraceError("unknown-webhook", `There is no webhook ${JSON.stringify(name)}.`);
}
