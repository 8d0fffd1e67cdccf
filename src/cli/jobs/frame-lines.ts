/** The output of a job as lines. Text that came together is one line, however many frames it was. */
import type { Millrace } from "../../client/millrace.ts";
import type { Frame } from "../../client/open-frames.ts";
import { isMillraceError } from "../../model/error.ts";
import { escapeText } from "../output/escape.ts";
import { formatInstant } from "../output/format-time.ts";
import { toJsonLine } from "../output/print-json.ts";

type Data = Extract<Frame, { kind: "data" }>;

export class FrameLines {
  /** Text of frames that came together, of which the line has not ended. */
  #open: { readonly at: number; readonly part: string | null } | null = null;

  /** @returns what is to be printed now. */
  add(frame: Frame): string {
    if (frame.kind === "ended") return "";
    if (frame.kind === "restarted")
      return `${this.end()}output restarted${frame.part === null ? "" : `: ${escapeText(frame.part)}`}\n`;
    if (typeof frame.value !== "string") return `${this.end()}${titleOf(frame)}${toJsonLine(frame.value)}\n`;
    const { part } = frame;
    const at = frame.at.getTime();
    const text = escapeText(frame.value);
    if (this.#open?.at === at && this.#open.part === part) return text;
    const ended = this.end();
    this.#open = { at, part };
    return `${ended}${titleOf(frame)}${text}`;
  }

  end(): string {
    const isOpen = this.#open !== null;
    this.#open = null;
    return isOpen ? "\n" : "";
  }
}

const titleOf = ({ at, part }: Data): string =>
  `${formatInstant(at)}  output${part === null ? "" : ` ${escapeText(part)}`}: `;

/** The frames that are there now. */
export async function readFrames(mill: Millrace, id: string): Promise<readonly Frame[]> {
  const { frames: last } = await mill.output(id);
  const read: Frame[] = [];
  if (last === 0) return read;
  try {
    for await (const frame of mill.frames(id)) {
      if (frame.kind !== "ended") read.push(frame);
      if (frame.kind === "ended" || frame.cursor.endsWith(`-${last}`)) break;
    }
  } catch (error) {
    // Encrypted with keys that the command line does not have: the rest of the job can still be shown.
    if (!isMillraceError(error, "payload-unreadable") && !isMillraceError(error, "unknown-key")) throw error;
  }
  return read;
}
