/**
 * The worker of deliveries. It runs in the leader process while there are webhooks (engine/duties/webhooks-duty.ts).
 */
import type { Needs } from "../../engine/services.ts";
import { webhookQueue } from "../../model/events/webhook.ts";
import type { Handler } from "../../worker/handler.ts";
import type { Worker } from "../../worker/worker.ts";
import type { WorkerOptions } from "../../worker/worker-settings.ts";
import { deliveryHandler } from "./deliver-webhook.ts";

type WebhookWorkerNeeds = Needs<"platform" | "coder" | "allowPrivate" | "repeated" | "webhookDocs">;

const slots = 20;

type Work = (handlers: readonly Handler[], options: WorkerOptions) => Promise<Worker>;

export class WebhookWorker {
  readonly #needs: WebhookWorkerNeeds;
  readonly #work: Work;
  #worker: Promise<Worker> | null = null;

  constructor(needs: WebhookWorkerNeeds, work: Work) {
    this.#needs = needs;
    this.#work = work;
  }

  /** @param isOurs whether this process delivers. */
  run(isOurs: boolean): void {
    const worker = this.#worker;
    if (isOurs && worker === null) this.#start();
    if (isOurs || worker === null) return;
    this.#worker = null;
    worker.then((running) => running.stop()).catch(() => undefined);
  }

  #start(): void {
    const handlers = [deliveryHandler(this.#needs)];
    this.#worker = this.#work(handlers, { queues: { [webhookQueue]: slots }, shutdownGrace: "5s" });
    this.#worker.catch((error: unknown) => {
      this.#worker = null;
      this.#needs.repeated.say(
        "warn",
        "the worker that delivers webhooks could not start; it will be tried again",
        {
          error,
        },
      );
    });
  }
}
