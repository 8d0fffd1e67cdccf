/**
 * Whether spans and metrics are recorded: an SDK is registered, or a provider was given. Asked before each job
 * until it is so, because an SDK may be registered late; from then on it stays so. Without one, a job pays for this
 * question and nothing else.
 */
import { createNoopMeter, metrics, trace } from "./api.ts";

/** As much of the API's own provider as is asked: it has a tracer only once an SDK is registered. */
interface MayHaveTracer {
  getDelegateTracer?(name: string): unknown;
}

export function sdkPresence(isGiven: boolean): () => boolean {
  let isPresent = isGiven;
  return () => (isPresent ||= hasTracer() || metrics.getMeter("millrace") !== createNoopMeter());
}

function hasTracer(): boolean {
  const provider = trace.getTracerProvider() as MayHaveTracer;
  return provider.getDelegateTracer === undefined || provider.getDelegateTracer("millrace") !== undefined;
}
