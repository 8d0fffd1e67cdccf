/**
 * The shape that `queues` and `limits` share: without words it lists all of them with their settings; with a verb and a
 * name it changes one and shows what it is now. An option that the verb does not take is refused, not ignored.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { Platform } from "../../platform/platform.ts";
import { storeOption } from "../command.ts";
import type { Call, Command, CommandOption } from "../command.ts";
import { formatTable } from "../output/format-table.ts";
import { existingStoreUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { quote, wrong } from "../arguments/read-args.ts";

interface Verb<Shown> {
  readonly options?: Readonly<Record<string, CommandOption>>;
  /** Reads the options, before the store is touched, and answers what is to be done with the one that is named. */
  read(
    options: ReadonlyMap<string, string>,
    platform: Platform,
  ): (mill: Millrace, name: string) => Promise<Shown>;
}

interface SettingCommand<Shown> extends Pick<Command, "summary" | "examples"> {
  /** The command's name: what it lists. */
  readonly name: string;
  /** What the usage calls the name of one of them. */
  readonly word: string;
  readonly verbs: Readonly<Record<string, Verb<Shown>>>;
  readonly list: (mill: Millrace) => Promise<readonly Shown[]>;
  readonly columns: Parameters<typeof formatTable>[0];
  readonly cells: (shown: Shown) => readonly string[];
}

export function settingCommand<Shown>(given: SettingCommand<Shown>): Command {
  const { name, word, verbs, summary, examples, list, columns, cells } = given;
  const known = Object.keys(verbs);
  const use = <Answer>(call: Call, act: (mill: Millrace) => Promise<Answer>): Promise<Answer> =>
    existingStoreUrl(call).then((url) => withMillrace(call, url, act));
  const table = (all: readonly Shown[]): string => formatTable(columns, all.map(cells));
  return {
    name,
    usage: `${name} | ${name} ${known.join("|")} ${word}`,
    summary,
    words: [0, 2],
    options: Object.assign(
      { ...storeOption },
      ...Object.values(verbs).map(({ options }) => options),
    ) as Command["options"],
    ...(examples === undefined ? {} : { examples }),
    async run(call) {
      const { terminal, options, wantsJson, words } = call;
      const [verb, one] = words;
      if (verb === undefined) {
        refuseStray(call, "without a verb");
        const all = await use(call, list);
        const text = all.length === 0 ? `no ${name}` : table(all);
        terminal.writeOut(`${wantsJson ? toJson({ [name]: all }) : text}\n`);
        return 0;
      }
      const chosen = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
      if (chosen === undefined)
        throw wrong(`${name} knows the verbs ${known.join(", ")}, not ${quote(verb)}`);
      if (one === undefined) throw wrong(`${name} ${verb} needs a ${word}`);
      refuseStray(call, `with ${verb}`, chosen.options);
      const act = chosen.read(options, call.platform);
      const shown = await use(call, (mill) => act(mill, one));
      terminal.writeOut(`${wantsJson ? toJson(shown) : table([shown])}\n`);
      return 0;
    },
  };
}

const always = new Set([...Object.keys(storeOption), "json"]);

function refuseStray({ options }: Call, where: string, taken: Readonly<Record<string, unknown>> = {}): void {
  const stray = [...options.keys()].find((option) => !always.has(option) && !Object.hasOwn(taken, option));
  if (stray !== undefined) throw wrong(`--${stray} has no meaning ${where}`);
}
