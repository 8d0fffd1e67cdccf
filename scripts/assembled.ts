/**
 * `npm run assembled -- STORE [FUNCTION]`: prints what the store sends to its server as program text, all of it or one
 * function. `@name` in SQL stands for a table or function of the store's schema.
 */
import { assembledStores } from "../test/assembled/assembled-stores.ts";

const [store = "", name] = process.argv.slice(2);
const assembled = assembledStores[store];
const texts = assembled?.texts();
if (texts === undefined)
  fail(`Usage: npm run assembled -- ${Object.keys(assembledStores).join("|")} [FUNCTION]`);
else if (name === undefined) console.log([...texts.values()].join("\n\n"));
else {
  const names = [...texts.keys(), ...(assembled?.functions?.() ?? [])];
  const text = assembled?.functionText?.(name) ?? texts.get(name);
  console.log(text ?? fail(`No function ${name}. There are: ${names.join(", ")}`));
}

function fail(sentence: string): never {
  console.error(sentence);
  process.exit(2);
}
