/**
 * The metrics for Prometheus: their names, labels and meanings. docs/guides/metrics.md lists them and the Grafana
 * dashboard next to it shows them; tests compare both with this file.
 */
import type { MetricTotals, TotalSeries } from "../../model/metrics/metric-totals.ts";
import type { Family, Labels, Sample } from "../../model/metrics/prometheus-text.ts";
import type { StoreMeasure, StoreRequests } from "../../store/store.ts";
import { dutyFamilies } from "./duty-families.ts";
import type { ProcessDuties } from "../workers/duty-views.ts";
import type { QueueGauges } from "./metric-gauges.ts";

export interface Measured {
  readonly totals: MetricTotals;
  readonly queues: readonly QueueGauges[];
  readonly servers: readonly StoreMeasure[];
  readonly processes: readonly ProcessDuties[];
  /** Those of this process alone; null if the store is not a bucket. */
  readonly requests: StoreRequests | null;
}

export function metricFamilies({
  totals,
  queues,
  servers,
  processes,
  requests,
}: Measured): readonly Family[] {
  const all = [...totals.series];
  const calls = [...totals.calls];
  const bySeries = (valueOf: (series: TotalSeries) => Sample["value"]): readonly Sample[] =>
    all.map((series) => ({ labels: titleOf(series), value: valueOf(series) }));
  const byQueue = (valueOf: (gauges: QueueGauges) => number): readonly Sample[] =>
    queues.map((gauges) => ({ labels: { queue: gauges.queue }, value: valueOf(gauges) }));
  return [
    {
      name: "millrace_enqueued_total",
      help: "Jobs that were submitted.",
      type: "counter",
      samples: bySeries(({ enqueued }) => enqueued),
    },
    {
      name: "millrace_attempts_total",
      help: "Attempts that have ended, and jobs that a duty has ended, by outcome.",
      type: "counter",
      samples: all.flatMap((series) =>
        [...series.outcomes]
          .filter(([, value]) => value > 0)
          .map(([outcome, value]) => ({ labels: { ...titleOf(series), outcome }, value })),
      ),
    },
    {
      name: "millrace_job_wait_seconds",
      help: "From the time at which a job was due until its handler was called, per attempt.",
      type: "histogram",
      samples: bySeries(({ wait }) => wait),
    },
    {
      name: "millrace_job_run_seconds",
      help: "How long handlers ran, per attempt.",
      type: "histogram",
      samples: bySeries(({ run }) => run),
    },
    {
      name: "millrace_job_duration_seconds",
      help: "From the submit of a job to its end, over all its attempts.",
      type: "histogram",
      samples: bySeries(({ total }) => total),
    },
    {
      name: "millrace_steps_total",
      help: "Steps of durable runs whose code has ended, each try of it, by outcome.",
      type: "counter",
      samples: all.flatMap((series) =>
        (["completed", "failed"] as const).flatMap((outcome) => {
          const value = series.steps?.[outcome] ?? 0;
          return value === 0 ? [] : [{ labels: { ...titleOf(series), outcome }, value }];
        }),
      ),
    },
    {
      name: "millrace_step_run_seconds",
      help: "How long the code of steps of durable runs ran, per try.",
      type: "histogram",
      samples: all.flatMap((series) =>
        series.steps === null ? [] : [{ labels: titleOf(series), value: series.steps.run }],
      ),
    },
    {
      name: "millrace_queue_jobs",
      help: "Jobs by state, finished ones that are kept included.",
      type: "gauge",
      samples: queues.flatMap(({ queue, jobs }) =>
        Object.entries(jobs).map(([state, value]) => ({ labels: { queue, state }, value })),
      ),
    },
    {
      name: "millrace_queue_oldest_ready_age_seconds",
      help: "How long the next job in line has been due; 0 if none is ready.",
      type: "gauge",
      samples: byQueue(({ oldestReadyMs }) => (oldestReadyMs ?? 0) / 1000),
    },
    {
      name: "millrace_queue_held_jobs",
      help: "Ready jobs that a pause, a limit, the rate or concurrency of the queue or a missing capability holds back.",
      type: "gauge",
      samples: byQueue(({ held }) => held),
    },
    {
      name: "millrace_queue_workers",
      help: "Live workers that serve the queue.",
      type: "gauge",
      samples: byQueue(({ workers }) => workers),
    },
    {
      name: "millrace_queue_slots",
      help: "Slots of live workers for the queue.",
      type: "gauge",
      samples: byQueue(({ slots }) => slots),
    },
    {
      name: "millrace_queue_busy_slots",
      help: "Slots that have a job.",
      type: "gauge",
      samples: byQueue(({ busy }) => busy),
    },
    {
      name: "millrace_queue_paused",
      help: "1 while the queue is paused.",
      type: "gauge",
      samples: byQueue(({ paused }) => Number(paused)),
    },
    {
      name: "millrace_queue_cooling_limits",
      help: "Limits of the queue's jobs that cool down after a throttle.",
      type: "gauge",
      samples: byQueue(({ cooling }) => cooling),
    },
    {
      name: "millrace_store_size_bytes",
      help: "How large the store is: the file, the schema, or the memory of the server.",
      type: "gauge",
      samples: servers.map(({ server, sizeBytes }) => ({ labels: { server }, value: sizeBytes })),
    },
    {
      name: "millrace_store_connections",
      help: "Connections to the server, of all its clients.",
      type: "gauge",
      samples: servers.flatMap(({ server, connections }) =>
        connections === null ? [] : [{ labels: { server }, value: connections }],
      ),
    },
    {
      name: "millrace_store_call_seconds",
      help: "How long calls to the store took, over all processes, while they had jobs.",
      type: "histogram",
      samples: calls.map(([operation, { took }]) => ({ labels: { operation }, value: took })),
    },
    {
      name: "millrace_store_failed_calls_total",
      help: "Calls to the store that failed.",
      type: "counter",
      samples: calls.map(([operation, { failed }]) => ({ labels: { operation }, value: failed })),
    },
    ...requestFamilies(requests),
    ...dutyFamilies(processes),
  ];
}

function requestFamilies(requests: StoreRequests | null): readonly Family[] {
  const samples = (named: Readonly<Record<string, (given: StoreRequests) => number>>, label: string) =>
    requests === null
      ? []
      : Object.entries(named).map(([name, valueOf]) => ({
          labels: { [label]: name },
          value: valueOf(requests),
        }));
  return [
    {
      name: "millrace_store_requests_total",
      help: "Requests of this process to the object storage since it opened the store, by kind.",
      type: "counter",
      samples: samples(
        {
          put: ({ put }) => put,
          get: ({ get }) => get,
          list: ({ list }) => list,
          remove: ({ remove }) => remove,
        },
        "kind",
      ),
    },
    {
      name: "millrace_store_request_bytes_total",
      help: "Bytes that this process has put into the object storage and got from it.",
      type: "counter",
      samples: samples({ put: ({ bytesPut }) => bytesPut, got: ({ bytesGot }) => bytesGot }, "direction"),
    },
    {
      name: "millrace_store_request_cost_total",
      help: "What these requests cost at the prices of the store.",
      type: "counter",
      samples: requests === null ? [] : [{ labels: {}, value: requests.cost }],
    },
  ];
}

function titleOf({ queue, name }: TotalSeries): Labels {
  return { queue, name };
}
