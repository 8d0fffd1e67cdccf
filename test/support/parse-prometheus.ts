/**
 * A strict parser of the text format of Prometheus, by the rules of its specification: it throws for whatever
 * Prometheus would refuse or misread.
 *
 * - Every line ends in a line feed. A family's help and type come once each, before its samples, which stand together.
 * - Names and labels keep their grammar; in the value of a label only \\, \" and \n are escapes.
 * - No sample comes twice. A histogram has buckets of growing bounds and counts, the last of them +Inf, a sum, and a
 *   count that is the last bucket's.
 */
export interface ParsedSample {
  readonly labels: Readonly<Record<string, string>>;
  /** Of a counter or a gauge. */
  readonly value: number;
  /** Of a histogram: by the upper bound. */
  readonly buckets: ReadonlyMap<number, number>;
  readonly sum: number;
  readonly count: number;
}

export interface ParsedFamily {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly samples: readonly ParsedSample[];
}

interface Line {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const nameGrammar = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;
const labelGrammar = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"/;
const types = ["counter", "gauge", "histogram", "summary", "untyped"];
const endings = ["", "_bucket", "_sum", "_count"];

export function parsePrometheus(text: string): readonly ParsedFamily[] {
  check(text === "" || text.endsWith("\n"), "the last line has no end");
  const families = new Map<string, { help: string; type: string; lines: Line[] }>();
  const seen = new Set<string>();
  let current = "";
  for (const line of text.split("\n").slice(0, -1)) {
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line);
    if (comment !== null) {
      const [, what, name, rest] = comment as unknown as [string, string, string, string];
      check(nameGrammar.exec(name)?.[0] === name, `no name: ${name}`);
      if (what === "HELP") {
        check(!families.has(name), `two families have the name ${name}`);
        families.set(name, { help: rest, type: "", lines: [] });
      } else {
        const family = families.get(name);
        check(family !== undefined && family.type === "" && types.includes(rest), `wrong type: ${line}`);
        family.type = rest;
      }
      current = name;
      continue;
    }
    const sample = parseSample(line);
    const key = JSON.stringify([sample.name, Object.entries(sample.labels).map(String).sort()]);
    check(!seen.has(key), `a sample comes twice: ${line}`);
    seen.add(key);
    const family = families.get(current);
    check(family !== undefined && family.type !== "", `a sample without a type: ${line}`);
    const isOfFamily =
      family.type === "histogram"
        ? endings.slice(1).some((ending) => sample.name === `${current}${ending}`)
        : sample.name === current;
    check(isOfFamily, `a sample of another family: ${line}`);
    family.lines.push(sample);
  }
  return [...families].map(([name, { help, type, lines }]) => ({
    name,
    help,
    type,
    samples: type === "histogram" ? histograms(name, lines) : lines.map((line) => ({ ...empty, ...line })),
  }));
}

const empty = { buckets: new Map<number, number>(), sum: Number.NaN, count: Number.NaN };

function parseSample(line: string): Line {
  const name = nameGrammar.exec(line)?.[0];
  check(name !== undefined, `no sample: ${line}`);
  const labels: Record<string, string> = Object.create(null) as Record<string, string>;
  let rest = line.slice(name.length);
  if (rest.startsWith("{")) {
    rest = rest.slice(1);
    while (!rest.startsWith("}")) {
      const label = labelGrammar.exec(rest);
      check(label !== null, `no label: ${line}`);
      const [whole, key, value] = label as unknown as [string, string, string];
      check(!(key in labels), `a label comes twice: ${line}`);
      labels[key] = value.replace(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));
      rest = rest.slice(whole.length);
      if (rest.startsWith(",")) rest = rest.slice(1);
      else check(rest.startsWith("}"), `labels do not end: ${line}`);
    }
    rest = rest.slice(1);
  }
  check(/^ (?:[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[+-]Inf|NaN)$/.test(rest), `no value: ${line}`);
  return { name, labels, value: readNumber(rest.slice(1)) };
}

function readNumber(text: string): number {
  return text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
}

function histograms(name: string, lines: readonly Line[]): readonly ParsedSample[] {
  const groups = Map.groupBy(lines, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels));
  return [...groups].map(([labels, own]) => {
    const valueOf = (ending: string): number => {
      const line = own.find((each) => each.name === `${name}${ending}`);
      check(line !== undefined, `${name}${ending} is missing for ${labels}`);
      return line.value;
    };
    const buckets = new Map<number, number>();
    let before = { bound: Number.NEGATIVE_INFINITY, count: 0 };
    for (const each of own.filter((line) => line.name === `${name}_bucket`)) {
      const bound = readNumber(each.labels["le"] ?? "");
      check(bound > before.bound && each.value >= before.count, `buckets do not grow: ${labels}`);
      before = { bound, count: each.value };
      buckets.set(bound, each.value);
    }
    const count = valueOf("_count");
    check(buckets.get(Number.POSITIVE_INFINITY) === count, `the last bucket is not all: ${labels}`);
    const value = Number.NaN;
    return {
      labels: JSON.parse(labels) as Record<string, string>,
      value,
      buckets,
      sum: valueOf("_sum"),
      count,
    };
  });
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`this is no text of Prometheus: ${what}`);
}
