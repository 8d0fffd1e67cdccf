/**
 * What the demo shows: counts per queue and state, the reports in progress and the latest news. On a terminal the board
 * is drawn over itself; without one, a shorter line is printed each second.
 */
import type { JobState } from "../../model/job/job-state.ts";
import type { Terminal } from "../../platform/terminal.ts";
import { formatTable } from "../output/format-table.ts";
import { shorten } from "../output/escape.ts";
import { Screen } from "../fleet/screen.ts";

export type Counts = Readonly<Record<string, Readonly<Partial<Record<JobState, number>>>>>;

export interface Scene {
  readonly elapsedMs: number;
  readonly secondsMax: number;
  readonly counts: Counts;
  readonly reports: readonly { readonly month: string; readonly share: number }[];
}

const shownStates = ["scheduled", "ready", "running", "completed", "failed", "cancelled"] as const;

const newsMax = 6;
const colours: Readonly<Record<string, number>> = { running: 36, completed: 32, failed: 31, cancelled: 33 };

export class Board {
  readonly #terminal: Terminal;
  readonly #news: string[] = [];
  readonly #screen: Screen;
  #printedSeconds = -1;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#screen = new Screen(terminal);
  }

  announce(news: string): void {
    this.#news.push(news);
    if (this.#news.length > newsMax) this.#news.shift();
  }

  draw(scene: Scene): void {
    if (this.#terminal.isTTY) this.#redraw(scene);
    else this.#printSecond(scene);
  }

  #redraw({ elapsedMs, secondsMax, counts, reports }: Scene): void {
    const seconds = (elapsedMs / 1000).toFixed(1);
    const bars = reports.map(
      ({ month, share }) => `report of ${month.padEnd(9)} ${bar(share)} ${Math.round(share * 100)} %`,
    );
    this.#screen.draw([
      `${seconds.padStart(5)} s of ${secondsMax}`,
      "",
      ...this.#paint(countTable(counts)),
      "",
      ...bars,
      ...Array.from({ length: Math.max(0, 2 - bars.length) }, () => ""),
      "",
      ...this.#news.map((news) => `· ${news}`),
    ]);
  }

  #printSecond({ elapsedMs, counts }: Scene): void {
    const seconds = Math.floor(elapsedMs / 1000);
    if (seconds === this.#printedSeconds) return;
    this.#printedSeconds = seconds;
    const totals = shownStates.map((state) => `${state} ${totalOf(counts, state)}`);
    const news = this.#news.splice(0).at(-1);
    this.#terminal.writeOut(
      `${String(seconds).padStart(3)} s  ${totals.join("  ")}${news === undefined ? "" : `  · ${shorten(news, 100)}`}\n`,
    );
  }

  /** Colours come after the columns are laid out, so that they take no width. */
  #paint(table: string): readonly string[] {
    const [head = "", ...lines] = table.split("\n");
    if (!this.#terminal.hasColors || head.length >= this.#terminal.columns) return [head, ...lines];
    const spans = shownStates.map((state) => {
      const end = head.indexOf(state) + state.length;
      return { end, colour: colours[state] };
    });
    const painted = lines.map((line) =>
      spans.reduceRight((text, { end, colour }) => {
        const cell = /\d+$/.exec(text.slice(0, end))?.[0];
        if (colour === undefined || cell === undefined || cell === "0") return text;
        return `${text.slice(0, end - cell.length)}\u001b[${colour}m${cell}\u001b[0m${text.slice(end)}`;
      }, line),
    );
    return [`\u001b[1m${head}\u001b[0m`, ...painted];
  }
}

export function countTable(counts: Counts): string {
  const columns = [{ title: "queue" }, ...shownStates.map((title) => ({ title, isNumber: true }))];
  const rows = Object.keys(counts)
    .toSorted()
    .map((queue) => [queue, ...shownStates.map((state) => String(counts[queue]?.[state] ?? 0))]);
  const totals = ["all", ...shownStates.map((state) => String(totalOf(counts, state)))];
  return formatTable(columns, [...rows, totals]);
}

export function totalOf(counts: Counts, state: JobState): number {
  return Object.values(counts).reduce((sum, states) => sum + (states[state] ?? 0), 0);
}

const barChars = 24;

function bar(share: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * barChars);
  return "█".repeat(full) + "░".repeat(barChars - full);
}
