/**
 * `millrace approvals`: the runs that wait for an approval; a token for one of them, what a token is for, and the
 * answer by it.
 */
import type { RunStepView, WaitingRun } from "../../client/durable/runs.ts";
import type { TokenLook } from "../../client/durable/approvals.ts";
import type { Duration } from "../../model/duration.ts";
import { duration, readJson, text, whole } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { action, command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatTable } from "../output/format-table.ts";
import { formatAge } from "../output/format-time.ts";

const token = action({
  words: "ID SIGNAL",
  options: {
    source: text("WHO", "of token: who is to answer"),
    expires: duration("of token: how long it is accepted, such as 7d"),
  },
  async run({ words: [id = "", signal = ""], options: { source, expires }, withStore, answer }) {
    if (source === undefined || expires === undefined)
      throw wrong("approvals token needs --source and --expires");
    const made = await withStore((mill) =>
      mill.approvals.token(id, signal, { source, expires: expires as Duration }),
    );
    answer({ token: made }, made);
  },
});

const look = action({
  words: "TOKEN",
  options: {},
  async run({ platform, words: [given = ""], withStore, answer }) {
    const found = await withStore((mill) => mill.approvals.look(given));
    answer(found, () => lookText(found, platform.now()));
    return found.kind === "open" ? 0 : 1;
  },
});

const answerBy = action({
  words: "TOKEN JSON",
  options: {},
  async run({ words: [given = "", value = ""], withStore, answer }) {
    const sent = readJson(value, "The answer");
    const result = await withStore((mill) => mill.approvals.answer(given, sent));
    answer(result, result.kind === "accepted" ? "accepted" : refusals[result.kind]);
    return result.kind === "accepted" ? 0 : 1;
  },
});

export const approvals = command({
  name: "approvals",
  summary: "durable runs that wait for an approval; tokens with which somebody outside answers",
  options: {
    queue: text("QUEUE", "only runs of this queue"),
    name: text("NAME", "only runs of this job"),
    limit: whole("N", "how many runs, 50 by default", 1, 500),
  },
  examples: [
    "approvals",
    "approvals token order-17 manager --source ann --expires 7d",
    `approvals answer TOKEN '{"ok":true}'`,
  ],
  verbs: { token, look, answer: answerBy },
  async run({ platform, options: { limit = 50, ...filter }, withStore, answer }) {
    const waiting = await withStore(async (mill) => {
      const found: WaitingRun[] = [];
      let cursor: string | null = null;
      do {
        const page = await mill.runs.waiting({ ...filter, limit: 100, cursor });
        found.push(...page.runs.filter(({ waits }) => waits.some(isApproval)));
        ({ cursor } = page);
      } while (cursor !== null && found.length < limit);
      return found.slice(0, limit);
    });
    const now = platform.now();
    answer({ runs: waiting }, () =>
      waiting.length === 0
        ? "no run waits for an approval"
        : formatTable(columns, waiting.flatMap(linesOf(now))),
    );
  },
});

const isApproval = ({ kind }: RunStepView): boolean => kind === "approval";

const columns = ["RUN", "JOB", "QUEUE", "APPROVAL", "SINCE", "UNTIL"].map((title) => ({ title }));

const linesOf =
  (now: number) =>
  ({ id, name, queue, waits }: WaitingRun): readonly (readonly string[])[] =>
    waits
      .filter(isApproval)
      .map(({ step, signal, at, until }) => [
        ...[id, name, queue, signal ?? step].map(escapeText),
        formatAge(at, now),
        until === null ? "" : formatAge(until, now),
      ]);

const refusals = {
  invalid: "the token is not valid",
  expired: "the token has expired",
  used: "the token was used",
  closed: "what the token was to answer is over",
} as const;

function lookText(found: TokenLook, now: number): string {
  if (found.kind !== "open") return refusals[found.kind];
  const { run, job, signal, source, expiresAt, isAwaited } = found;
  const waits = isAwaited ? "the run waits for it" : "the run does not wait for it yet";
  return `${escapeText(source)} may answer ${escapeText(signal)} of ${escapeText(job)} ${escapeText(run)}, until ${formatAge(expiresAt, now)}; ${waits}`;
}
