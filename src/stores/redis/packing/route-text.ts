/**
 * Routes as the server keeps them: the number (model/routing/route.ts) as eight characters, in records, key names,
 * counts, events and hints; its content once, under that number.
 *
 *  content   queue US name US capabilities, by RS US gates: key RS weight, by RS [US order of its lanes]
 */
import type { GateUse } from "../../../model/limits/gate.ts";
import type { LaneOrder } from "../../../model/routing/lane.ts";
import type { Route } from "../../../model/routing/route.ts";
import { fieldEnd, itemEnd, packText, unpackText } from "../../../store/packing/packed-text.ts";

/** In the order of their bytes, so that routes stand in sorted sets by their numbers. */
const digits = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
const valueOfDigit = new Map(digits.split("").map((digit, value) => [digit.charCodeAt(0), value]));
/** Half of a number: four characters of six bits. */
const half = 2 ** 24;

export function routeText(number: number): string {
  return halfText(Math.floor(number / half)) + halfText(number % half);
}

function halfText(bits: number): string {
  const digit = (shift: number): string => digits[(bits >>> shift) & 63] as string;
  return digit(18) + digit(12) + digit(6) + digit(0);
}

/** The one read last: the jobs of a claim mostly have the same. */
let last = { text: "", number: 0 };

export function readRoute(text: string): number {
  if (text === last.text) return last.number;
  let number = 0;
  for (let at = 0; at < text.length; at++)
    number = number * 64 + (valueOfDigit.get(text.charCodeAt(at)) ?? 0);
  last = { text, number };
  return number;
}

export function contentText({ queue, name, requires, gates, lanes }: Omit<Route, "number">): string {
  const asked = gates.flatMap(({ key, weight }) => [packText(key), String(weight)]);
  const ordered = lanes === undefined ? [] : [lanes];
  return [packText(queue), packText(name), requiresText(requires), asked.join(itemEnd), ...ordered].join(
    fieldEnd,
  );
}

export function requiresText(requires: readonly string[]): string {
  return requires.map(packText).join(itemEnd);
}

/** Number and content in turns. */
export function readRoutes(flat: readonly string[]): Map<number, Route> {
  const routes = new Map<number, Route>();
  for (let at = 0; at < flat.length; at += 2) {
    const number = readRoute(flat[at] as string);
    const [queue = "", name = "", requires = "", gates = "", lanes] = (flat[at + 1] as string).split(
      fieldEnd,
    );
    routes.set(number, {
      number,
      queue: unpackText(queue),
      name: unpackText(name),
      requires: listOf(requires).map(unpackText),
      gates: readUses(listOf(gates)),
      ...(lanes === undefined ? {} : { lanes: lanes as LaneOrder }),
    });
  }
  return routes;
}

function listOf(text: string): string[] {
  return text === "" ? [] : text.split(itemEnd);
}

function readUses(parts: readonly string[]): GateUse[] {
  const uses: GateUse[] = [];
  for (let at = 0; at < parts.length; at += 2)
    uses.push({ key: unpackText(parts[at] as string), weight: Number(parts[at + 1]) });
  return uses;
}
