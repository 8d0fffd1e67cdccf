/**
 * Handlers that run a command for each job. The program must be on the allow list. Its arguments are passed unchanged:
 * no shell reads them. If the handler has a shell script of its own, the arguments are the script's parameters and
 * never part of its text.
 */
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob, JobDefinition, OutOf, ReturnedOf } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { invalidOption } from "../../model/option.ts";
import { shellArgv } from "../../platform/child-process.ts";
import { withControl } from "../control.ts";
import { refuseDurable } from "../durable/durable-handler.ts";
import type { HandlerFunction, HandlerReturn, SingleHandler } from "../handler.ts";
import { JobContext } from "../run/job-context.ts";
import { Command } from "./command-program.ts";
import { readCommandOptions, readCommandPlan } from "./command-options.ts";
import type { CommandOptions, CommandPlan, CommandSettings } from "./command-options.ts";

const timeoutDefaultMs = 10 * 60_000;

export function commandHandler<Job extends AnyJob>(
  definition: Job,
  options: CommandOptions<HandlerReturn<ReturnedOf<Job>>>,
  plan: (context: JobContext<OutOf<Job>, ReturnedOf<Job>>) => CommandPlan | Promise<CommandPlan>,
): SingleHandler {
  checkDefinition(definition, "commandHandler");
  const what = `commandHandler(${JSON.stringify(definition.name)})`;
  refuseDurable(definition, what);
  const settings = readCommandOptions(options, what);
  if (typeof plan !== "function") throw invalidOption(`${what}: the last argument must be a function.`);
  const running = new Set<Command>();
  let users = 0;
  const handle: HandlerFunction<unknown, unknown> = async (context) => {
    const planned = readCommandPlan(await plan(context as never), what, settings.shell !== null);
    return runCommand(context, settings, planned, running);
  };
  const close = async (): Promise<void> => {
    if (--users > 0) return;
    const stopped = new MillraceError("sandbox-lost", "The worker stopped.");
    await Promise.all([...running].map((command) => command.kill(stopped)));
  };
  return {
    kind: "single",
    definition: definition as unknown as JobDefinition,
    handle,
    sandbox: {
      ...{ startsChildren: true, size: settings.size, ahead: () => 0 },
      open: async () => ((users += 1), close),
    },
  };
}

async function runCommand(
  context: JobContext,
  settings: CommandSettings,
  { argv: given = [], env = {}, cwd, stdin }: CommandPlan,
  running: Set<Command>,
): Promise<unknown> {
  const { signal } = context;
  const { attempt } = JobContext.insideOf(context);
  const argv = settings.shell === null ? allowed(given, settings) : shellArgv(settings.shell, given);
  if (signal.aborted) throw signal.reason;
  const start = {
    ...{ argv, env, inheritsEnv: settings.inheritsEnv },
    ...(cwd === undefined ? {} : { cwd }),
    ...(stdin === undefined ? {} : { input: stdin }),
  };
  const timeoutMs = settings.timeoutMs ?? attempt.policy.timeoutMs ?? timeoutDefaultMs;
  const command = new Command(argv[0] ?? "", start, { ...settings, timeoutMs });
  const stop = (): void => command.stop(signal.reason);
  signal.addEventListener("abort", stop);
  running.add(command);
  try {
    const ended = await command.outcome;
    if (!settings.exitCodes.has(ended.exitCode)) throw command.unsuccessful(ended.exitCode);
    return await settings.result?.(ended);
  } finally {
    attempt.output = command.output;
    running.delete(command);
    signal.removeEventListener("abort", stop);
  }
}

/** The refusal is final, because the next attempt would name the same program. */
function allowed(argv: readonly string[], { allow }: CommandSettings): readonly string[] {
  const [program = ""] = argv;
  if (allow.has(program)) return argv;
  const text = `The command ${JSON.stringify(program)} is not on the allow list: ${[...allow].join(", ")}.`;
  throw withControl(new MillraceError("command-not-allowed", text), { kind: "unrecoverable" });
}
