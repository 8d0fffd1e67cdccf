/**
 * What a worker of the command line shows: which duties are not as they come, one line per attempt that ended, and what
 * handlers log. A failed attempt has its line from the engine's own warning, with the error, so it gets no second one
 * here.
 */
import { durationText } from "../../model/duration.ts";
import { consoleLogger } from "../../platform/console-logger.ts";
import type { AttemptReport, LogFields, Logger } from "../../index.ts";
import { escapeText } from "../output/escape.ts";
import { formatInstant } from "../output/format-time.ts";
import { toJsonLine } from "../output/print-json.ts";

interface WorkLines {
  readonly log: Logger;
  readonly onAttempt: (report: AttemptReport) => void;
}

/** @param now epoch milliseconds, for the time that each line begins with. */
export function workLines(write: (text: string) => void, now: () => number): WorkLines {
  const line = (text: string): void => write(`${formatInstant(new Date(now()))}  ${text}\n`);
  return {
    log: {
      ...consoleLogger,
      // The engine logs the tuning of its duties at their start.
      info(_message, { changed, ...tuning } = {}) {
        for (const name of Array.isArray(changed) ? (changed as string[]) : [])
          write(`millrace: duty ${name}: ${String(tuning[name])}\n`);
      },
      // The engine logs every line of a handler, with the job's id and the line's level.
      debug(message, fields = {}) {
        if (typeof fields["jobId"] === "string") line(logText(message, fields["jobId"], fields));
      },
    },
    onAttempt(report) {
      if (report.outcome !== "failed" && report.outcome !== "retry-scheduled") line(endText(report));
    },
  };
}

function logText(message: string, id: string, { level, fields }: LogFields): string {
  const details = fields === undefined ? "" : ` ${toJsonLine(fields)}`;
  return `${escapeText(id)} ${escapeText(String(level))}: ${escapeText(message)}${details}`;
}

function endText({ id, name, outcome, reason, attempt, ranMs }: AttemptReport): string {
  const why = reason === null ? "" : ` (${escapeText(reason)})`;
  const which = attempt > 1 ? `, attempt ${attempt}` : "";
  return `${escapeText(id)} ${escapeText(name)} ${outcome}${why} after ${durationText(ranMs)}${which}`;
}
