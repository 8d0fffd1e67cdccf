/** Refusals of wrong usage. */
import { MillraceError } from "../../model/error.ts";
import { shorten } from "../output/escape.ts";

export function wrong(problem: string): MillraceError {
  return new MillraceError("invalid-option", `${problem}.`);
}

export function quote(given: string): string {
  return JSON.stringify(shorten(given, 80));
}
