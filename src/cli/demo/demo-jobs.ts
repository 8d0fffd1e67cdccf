/**
 * The demo's jobs and their handlers: one kind each for quick work, slow work with progress, retries, delays, unique
 * keys and cancel.
 */
import { handler, job } from "../../index.ts";
import type { Handler } from "../../index.ts";
import type { Platform } from "../../platform/platform.ts";
import { waitMs } from "../wait.ts";

export const welcomeEmail = job<{ to: string }>("welcome-email", { queue: "email" });
export const monthlyReport = job<{ month: string }, { pages: number }>("monthly-report", {
  queue: "reports",
});
export const chargeCard = job<{ order: number; card: string; failures: number }>("charge-card", {
  queue: "payments",
  redact: ["card"],
  retry: { attempts: 3, backoff: { kind: "exponential", from: "400ms", to: "2s" } },
});
export const reminder = job<{ text: string }>("reminder", { queue: "reminders" });
export const reindex = job<{ catalogue: string }>("reindex", {
  queue: "search",
  unique: { fields: ["catalogue"], policy: "debounce", window: "queued" },
});
export const exportAll = job<{ format: string }>("export-all", { queue: "exports" });

export const slots = { email: 5, reports: 2, payments: 4, reminders: 4, search: 1, exports: 1 };

const reportSteps = 10;

export function demoHandlers(platform: Platform, announce: (news: string) => void): readonly Handler[] {
  const pause = (delayMs: number, signal: AbortSignal): Promise<void> => waitMs(platform, delayMs, signal);
  return [
    handler(welcomeEmail, ({ signal }) => pause(30 + platform.random() * 120, signal)),
    handler(monthlyReport, async (context) => {
      context.log.info(`rendering ${context.input.month}`);
      for (let step = 1; step <= reportSteps; step++) {
        await pause(280, context.signal);
        context.progress(step / reportSteps, `page ${step} of ${reportSteps}`);
      }
      announce(`the report of ${context.input.month} is ready`);
      return { pages: reportSteps };
    }),
    handler(chargeCard, async ({ input, attempt, isLastAttempt, signal, log }) => {
      await pause(60 + platform.random() * 100, signal);
      if (attempt > input.failures) return;
      log.warn("the bank did not answer", { order: input.order });
      announce(
        isLastAttempt
          ? `order ${input.order}: attempt ${attempt} failed too, so the job failed for good`
          : `order ${input.order}: attempt ${attempt} failed, it will be tried again`,
      );
      throw new Error(`charging order ${input.order} failed`, {
        cause: new Error("ECONNRESET: bank.example"),
      });
    }),
    handler(reminder, async ({ input, signal }) => {
      await pause(20, signal);
      announce(`reminder: ${input.text}`);
    }),
    handler(reindex, async ({ input, signal }) => {
      await pause(200, signal);
      announce(`${input.catalogue}: indexed once for all the changes of the last second`);
    }),
    handler(exportAll, ({ signal }) => pause(600_000, signal)),
  ];
}
