/**
 * The worker of deliveries in this process: it runs while the process is the leader and there are webhooks
 * (duties/webhooks.ts).
 */
import type { Engine } from "../../engine/engine.ts";
import { webhookQueue } from "../../model/events/webhook.ts";
import type { Handler } from "../../worker/handler.ts";
import type { Worker } from "../../worker/worker.ts";
import type { WorkerOptions } from "../../worker/worker-settings.ts";
import { deliveryHandler } from "./deliver-webhook.ts";

const slots = 20;

export function runWebhookWorker(
  engine: Engine,
  work: (handlers: readonly Handler[], options: WorkerOptions) => Promise<Worker>,
): void {
  let worker: Promise<Worker> | null = null;
  const failed = (error: unknown): void => {
    worker = null;
    engine.repeated.say("warn", "the worker of webhooks could not start; it is tried again", { error });
  };
  engine.webhookDuty.add((isOurs) => {
    if (isOurs && worker === null) {
      worker = work([deliveryHandler(engine)], { queues: { [webhookQueue]: slots }, shutdownGrace: "5s" });
      worker.catch(failed);
    } else if (!isOurs && worker !== null) {
      const stopping = worker;
      worker = null;
      stopping.then((running) => running.stop()).catch(() => undefined);
    }
  });
}
