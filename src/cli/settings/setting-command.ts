/**
 * What `queues`, `limits`, `schedules`, `topics` and `webhooks` share: without words the command lists all of them with
 * their settings; with a verb and a name it changes one and shows what it is now.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { Platform } from "../../platform/platform.ts";
import type { Options, ValuesOf } from "../arguments/option-kinds.ts";
import { action, command } from "../command.ts";
import type { Command } from "../command.ts";
import { formatTable } from "../output/format-table.ts";

type Act<View> = (mill: Millrace, name: string) => Promise<View>;

export interface Verb<View, Known extends Options = Options> {
  readonly options: Known;
  /** Checks the options, before the store is opened, and answers what is to be done with the one that is named. */
  read(this: void, options: ValuesOf<Known>, platform: Platform): Act<View>;
}

interface SettingCommand<View> extends Pick<Command, "name" | "summary" | "examples"> {
  /** What the usage calls the name of one of them. */
  readonly word: string;
  readonly verbs: Readonly<Record<string, Verb<View>>>;
  readonly list: (mill: Millrace) => Promise<readonly View[]>;
  readonly columns: Parameters<typeof formatTable>[0];
  readonly cells: (view: View) => readonly string[];
}

export function settingCommand<View>(given: SettingCommand<View>): Command {
  const { name, word, verbs, list, columns, cells, ...described } = given;
  const table = (all: readonly View[]): string => formatTable(columns, all.map(cells));
  const actions = Object.entries(verbs).map(([verbName, { options, read }]) => {
    const run = action({
      ...{ words: word, options },
      async run({ options: values, platform, words: [one = ""], withStore, answer }) {
        const act = read(values, platform);
        const view = await withStore((mill) => act(mill, one));
        answer(view, () => table([view]));
      },
    });
    return [verbName, run] as const;
  });
  return command({
    ...{ name, ...described, options: {}, verbs: Object.fromEntries(actions) },
    async run({ withStore, answer }) {
      const all = await withStore(list);
      answer({ [name]: all }, () => (all.length === 0 ? `no ${name}` : table(all)));
    },
  });
}

/** A verb without options. */
export function plainVerb<View>(act: Act<View>): Verb<View> {
  return { options: {}, read: () => act };
}

/** Gives `read` the types of the options. */
export function verb<View, Known extends Options>(
  options: Known,
  read: Verb<View, Known>["read"],
): Verb<View> {
  return { options, read } as Verb<View, Known>;
}
