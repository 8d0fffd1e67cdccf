/** Running jobs of one Millrace, cancelled by another on the same place: what the work `cancel` measures. */
import { handler } from "../../src/worker/handler.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { Millrace } from "../../src/client/millrace.ts";
import { nowMs } from "../measure/clock.ts";
import type { Cancels } from "../measure/contender.ts";

export async function openMillraceCancels(worker: Millrace, operator: Millrace): Promise<Cancels> {
  const endless = job<null>("endless", { queue: "cancels" });
  let began = (_id: string): void => {};
  let told = (): void => {};
  const workers = await worker.work(
    [
      handler(endless, async ({ id, signal }) => {
        began(id);
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        told();
        signal.throwIfAborted();
      }),
    ],
    { queues: { cancels: 1 } },
  );
  return {
    async cancelOne() {
      const running = new Promise<string>((resolve) => void (began = resolve));
      const signalled = new Promise<number>((resolve) => void (told = () => resolve(nowMs())));
      const { id } = await operator.enqueue(endless, null);
      await running;
      const askedMs = nowMs();
      await operator.jobs.cancel(id);
      const delayMs = (await signalled) - askedMs;
      await operator
        .handle(id)
        .result()
        .catch(() => undefined);
      return delayMs;
    },
    async close() {
      await workers.stop();
      await operator.close();
    },
  };
}
