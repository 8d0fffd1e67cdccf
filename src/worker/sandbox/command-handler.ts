/**
 * Handlers that run a command for each job, made by a plan in code or by the job's input. The program must be on the
 * allow list. Its arguments are passed unchanged: no shell reads them. If the handler has a shell script of its own,
 * the arguments are the script's parameters and never part of its text.
 */
import { checkDefinition } from "../../engine/submit/job-definition.ts";
import type { AnyJob, JobDefinition, OutOf, ReturnedOf } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { invalidOption } from "../../model/option.ts";
import { shellArgv } from "../../platform/child-process.ts";
import { refuseDurable } from "../durable/durable-handler.ts";
import type { HandlerFunction, HandlerReturn, SingleHandler } from "../handler.ts";
import { JobContext } from "../run/job-context.ts";
import { Command } from "./command-program.ts";
import { notAllowed, planOfInput, readCommandOptions, readCommandPlan } from "./command-options.ts";
import type {
  CommandInput,
  CommandOptions,
  CommandPlan,
  CommandSettings,
  TimedPlan,
} from "./command-options.ts";

const timeoutDefaultMs = 10 * 60_000;

/**
 * A handler that runs the command that `plan` makes of the job; without a plan the job's input is the command.
 *
 * @example
 * const convert = job<CommandInput>("convert");
 * commandHandler(convert, { allow: ["convert"], root: "/srv/pictures", allowEnv: ["LANG"] });
 * await mill.enqueue(convert, { argv: ["convert", "a.png", "a.jpg"], cwd: "in", timeout: "1m" });
 */
export function commandHandler<Job extends AnyJob>(
  definition: Job,
  options: CommandOptions<HandlerReturn<ReturnedOf<Job>>>,
  plan: (context: JobContext<OutOf<Job>, ReturnedOf<Job>>) => CommandPlan | Promise<CommandPlan>,
): SingleHandler;
export function commandHandler<Result, Returned>(
  definition: JobDefinition<CommandInput, CommandInput, Result, Returned>,
  options: CommandOptions<HandlerReturn<Returned>>,
): SingleHandler;
export function commandHandler(
  definition: AnyJob,
  options: CommandOptions,
  plan?: (context: never) => CommandPlan | Promise<CommandPlan>,
): SingleHandler {
  checkDefinition(definition, "commandHandler");
  const what = `commandHandler(${JSON.stringify(definition.name)})`;
  refuseDurable(definition, what);
  const settings = readCommandOptions(options, what, plan !== undefined);
  if (plan !== undefined && typeof plan !== "function")
    throw invalidOption(`${what}: the last argument must be a function.`);
  const running = new Set<Command>();
  let users = 0;
  const handle: HandlerFunction<unknown, unknown> = async (context) => {
    const planned =
      plan === undefined
        ? await planOfInput(context.input, `the input of ${JSON.stringify(definition.name)}`, settings)
        : readCommandPlan(await plan(context as never), what, settings.shell !== null);
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
  { argv: given = [], env = {}, cwd, stdin, timeoutMs: asked = Infinity }: TimedPlan,
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
  const timeoutMs = Math.min(asked, settings.timeoutMs ?? attempt.policy.timeoutMs ?? timeoutDefaultMs);
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

function allowed(argv: readonly string[], { allow }: CommandSettings): readonly string[] {
  const [program = ""] = argv;
  if (allow.has(program)) return argv;
  throw notAllowed(
    `The command ${JSON.stringify(program)} is not on the allow list: ${[...allow].join(", ")}.`,
  );
}
