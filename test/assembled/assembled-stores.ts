/**
 * What a store sends to its server as program text, function by function, as it is after everything is put together.
 * `npm run assembled` prints it, and the snapshots beside this file keep it, so that a review sees what has changed.
 */
import { tablesSql } from "../../src/stores/postgres/connection/schema.sql.ts";
import { functionsSql } from "../../src/stores/postgres/functions/all-functions.sql.ts";

interface AssembledStore {
  /** Of the language, as an editor knows it. */
  readonly extension: string;
  /** The texts by the names of the functions. */
  readonly texts: () => ReadonlyMap<string, string>;
}

export const assembledStores: Readonly<Record<string, AssembledStore>> = {
  postgres: { extension: "sql", texts: postgresTexts },
};

function postgresTexts(): ReadonlyMap<string, string> {
  const texts = new Map([["tables", tablesSql]]);
  for (const text of functionsSql.split(/(?<=^(?:END )?\$\$;)\n+/m)) {
    const name = /^CREATE FUNCTION @(\w+)/m.exec(text)?.[1];
    if (name === undefined || texts.has(name)) throw new Error(`not one function of its own: ${text}`);
    texts.set(name, text);
  }
  return texts;
}
