/**
 * What `millrace/opentelemetry` gives: spans and metrics of jobs through the API of OpenTelemetry, an optional peer.
 */
export { openTelemetry } from "./open-telemetry.ts";
export type { OpenTelemetryOptions } from "./open-telemetry.ts";
