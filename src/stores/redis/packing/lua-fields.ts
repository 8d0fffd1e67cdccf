/**
 * Lua that follows from the tables of fields (packed-fields.ts): patterns that take fields out of a text, and the lists
 * of fields that statements name. A long list goes on in the next line.
 */
import { fieldNames, isClearedBy, jobFields } from "../../../store/job-fields.ts";
import type { JobField } from "../../../store/job-fields.ts";
import { luaText, wrapped } from "../library/lua.ts";
import { initialText, stateFields } from "./packed-fields.ts";
import type { PackedName, SameRules } from "./packed-fields.ts";

/** Lua's own limit for one pattern. One capture is kept for the place where the next pattern goes on. */
const capturesMax = 32;
/** Of a field that is taken, and of one that is passed over. */
export const captured = String.raw`([^\31]*)`;
export const skipped = String.raw`[^\31]*`;
/** With the ends of their fields, as constants.lua.ts names them. */
const constants: Readonly<Record<string, string>> = { [captured]: "TAKE", [skipped]: "SKIP" };
/** Held as numbers by the library, because they are counted up. */
const counted: readonly PackedName[] = ["rev", "attempt"];

/** A pattern as an expression of Lua: its fields, each by its own pattern and with its end, between two texts. */
export function fieldsPattern(
  patterns: readonly string[],
  { before = "", after = "" }: { readonly before?: string; readonly after?: string } = {},
): string {
  const pieces: { text: string; times: number }[] = [{ text: `"^${before}"`, times: 1 }];
  const add = (text: string): void => {
    const last = pieces.at(-1) as { text: string; times: number };
    if (text === last.text && !text.startsWith('"')) last.times++;
    else if (text.startsWith('"') && last.text.startsWith('"'))
      last.text = last.text.slice(0, -1) + text.slice(1);
    else pieces.push({ text, times: 1 });
  };
  for (const pattern of patterns) add(constants[pattern] ?? String.raw`"${pattern}\31"`);
  if (after !== "") add(`"${after}"`);
  const texts = pieces.map(({ text, times }) => (times === 1 ? text : `times(${text}, ${times})`));
  return wrapped(texts, { before: ".. " });
}

type Patterns = Readonly<Partial<Record<PackedName, string>>>;
/** Fields by their own patterns, else skipped; then where the next one begins. */
export const patternOf = (names: readonly PackedName[], patterns: Patterns = {}, before = ""): string =>
  fieldsPattern(
    names.map((name) => patterns[name] ?? skipped),
    { before, after: "()" },
  );

/** A pattern that takes some fields of a text, in the order of the text. */
export function pickPattern(
  names: readonly PackedName[],
  fields: readonly PackedName[] = stateFields,
): string {
  const inOrder = fields.filter((name) => names.includes(name));
  if (inOrder.join() !== names.join()) throw new Error(`the text has ${inOrder.join()}, not ${names.join()}`);
  const upTo = fields.slice(0, fields.indexOf(inOrder.at(-1) as PackedName));
  const before = upTo.map((name) => (inOrder.includes(name) ? captured : skipped));
  return fieldsPattern(before, { after: captured });
}

/** The fields of a table, as a list. */
export const inTable = (table: string, names: readonly string[]): string =>
  wrapped(names.map((name) => `${table}.${name}`));

/** Reads fields of `text` from `at` on into a table, by patterns that are constants of the module. */
export interface FieldReader {
  /** Declares the patterns. */
  readonly patterns: string;
  into(table: string): string;
}

/** isWhole: the last field of a whole text has no end; else `at` is left after it. */
export function fieldReader(constant: string, names: readonly string[], isWhole = false): FieldReader {
  const parts: { name: string; pattern: string; fields: readonly string[]; isLast: boolean }[] = [];
  for (let from = 0; from < names.length; from += capturesMax - 1) {
    const fields = names.slice(from, from + capturesMax - 1);
    const isLast = isWhole && from + fields.length === names.length;
    const pattern = fieldsPattern(
      fields.slice(isLast ? 1 : 0).map(() => captured),
      { after: isLast ? `${captured}$` : "()" },
    );
    parts.push({ name: from === 0 ? constant : `${constant}_${parts.length + 1}`, pattern, fields, isLast });
  }
  return {
    patterns: parts.map(({ name, pattern }) => `local ${name} = ${pattern}`).join("\n"),
    into: (table) =>
      parts
        .map(({ name, fields, isLast }) => {
          const places = [...fields.map((field) => `${table}.${field}`), ...(isLast ? [] : ["at"])];
          return `${wrapped(places)} = match(text, ${name}, at)`;
        })
        .join("\n"),
  };
}

export const initialOf = (name: PackedName): string =>
  counted.includes(name) ? initialText(name) : luaText(initialText(name));

/** Sets fields, a few by each statement. */
export function assigned(table: string, names: readonly PackedName[], valueOf = initialOf): string {
  const perLine = valueOf === initialOf ? 6 : 3;
  const lines: string[] = [];
  for (let from = 0; from < names.length; from += perLine) {
    const some = names.slice(from, from + perLine);
    lines.push(`${some.map((name) => `${table}.${name}`).join(", ")} = ${some.map(valueOf).join(", ")}`);
  }
  return lines.join("\n");
}

export const countedOf = (table: string): string =>
  assigned(table, counted, (name) => `tonumber(${table}.${name})`);

/** A function of this name sets back what the table of fields says that a rule clears. */
export function clearing(rule: Parameters<typeof isClearedBy>[0], name: string): string {
  const names = fieldNames(
    (field: JobField, fieldName) => isClearedBy(rule)(field) && stateFields.includes(fieldName as PackedName),
  );
  return `local function ${name}(job)\n  ${assigned("job", names).replaceAll("\n", "\n  ")}\nend`;
}

/** Whether the fields of a job were read at all, and numbers are numbers; before anything is made of them. */
export function isSound(names: readonly PackedName[], rules: SameRules): string {
  const firsts = names.filter((_, at) => at % (capturesMax - 1) === 0).map((name) => `job.${name}`);
  const numbers = names.flatMap((name) => {
    if (name === "flags" || name === "uses" || name === "route" || name === "state") return [];
    const { type, isNullable } = jobFields[name] as JobField;
    if (type === "flag") return [`(job.${name} == "0" or job.${name} == "1")`];
    if (type !== "integer") return [];
    const others = [rules[name]?.written, isNullable === true ? "" : undefined].filter(
      (text) => text !== undefined,
    );
    const isOther = [...new Set(others)].map((text) => `job.${name} == ${luaText(text)} or `).join("");
    return [isOther === "" ? `isNumber(job.${name})` : `(${isOther}isNumber(job.${name}))`];
  });
  return wrapped([...firsts, ...numbers], { before: "and " });
}

/** Fields that are written as a short text become what the text stands for. */
export const readSame = (rules: SameRules): string =>
  Object.entries(rules)
    .map(
      ([name, { as, written }]) => `if job.${name} == ${luaText(written)} then job.${name} = job.${as} end`,
    )
    .join("\n");

/**
 * Fields of a job, as a list, in which a value that equals another one's is the short text. `others`: expressions of
 * fields that are written otherwise.
 */
export function writeSame(
  names: readonly PackedName[],
  rules: SameRules,
  others: Readonly<Partial<Record<PackedName, string>>> = {},
): string {
  return wrapped(
    names.map((name) => {
      const rule = rules[name];
      const other = others[name];
      if (other !== undefined) return other;
      return rule === undefined
        ? `job.${name}`
        : `job.${name} == job.${rule.as} and ${luaText(rule.written)} or job.${name}`;
    }),
  );
}

/** Whether a job has something in one of these fields. */
export const hasAny = (names: readonly PackedName[]): string =>
  wrapped(
    names.map((name) => `job.${name} ~= ${luaText(initialText(name))}`),
    { before: "or " },
  );
