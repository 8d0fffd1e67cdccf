import { expect, test } from "vitest";
import type { Terminal } from "../../platform/terminal.ts";
import { Board } from "./board.ts";
import type { Scene } from "./board.ts";

/** As much of a terminal as the board uses: lines, going up, clearing a line's rest, what is below, and everything. */
function aScreen(columns: number): { readonly terminal: Terminal; readonly lines: () => string[] } {
  let [lines, row, column]: [string[], number, number] = [[""], 0, 0];
  const write = (text: string): void => {
    for (const [, up, code, character] of text.matchAll(/\u001b\[(?:(\d+)A|([?\d]*[a-zA-Z]))|([^])/g)) {
      if (up !== undefined) row -= Number(up);
      else if (code === "K") lines[row] = (lines[row] ?? "").slice(0, column);
      else if (code === "0J") lines = [...lines.slice(0, row), (lines[row] ?? "").slice(0, column)];
      else if (code === "2J") lines = [];
      else if (code === "H") [row, column] = [0, 0];
      else if (character === "\n") [row, column] = [row + 1, 0];
      else if (character !== undefined) {
        const line = (lines[row] ?? "").padEnd(column);
        lines[row] = line.slice(0, column) + character + line.slice(column + 1);
        column += 1;
      }
    }
  };
  const terminal = {
    isTTY: true,
    hasColors: true,
    columns,
    rows: 30,
    writeOut: write,
  } as unknown as Terminal;
  return { terminal, lines: () => Array.from(lines, (line) => line ?? "") };
}

const scene = (elapsedMs: number, completed: number): Scene => ({
  elapsedMs,
  secondsMax: 15,
  counts: { email: { completed, ready: 3 } },
  reports: elapsedMs < 1000 ? [{ month: "January", share: 0.5 }] : [],
});

test("a frame replaces the one before, also when its lines are shorter or fewer", () => {
  const { terminal, lines } = aScreen(100);
  const board = new Board(terminal);
  board.announce("a long piece of news that a shorter one will stand on");
  board.draw(scene(500, 100_000));
  expect(lines().join("\n")).toContain("report of January");
  for (let at = 0; at < 6; at++) board.announce(`news ${at}`);
  board.draw(scene(2000, 7));
  const shown = lines();
  expect(shown[0]).toBe("  2.0 s of 15");
  expect(shown.filter((line) => line.startsWith("queue"))).toHaveLength(1);
  expect(shown.join("\n")).not.toMatch(/January|100000|long piece/);
  expect(shown.filter((line) => line.startsWith("· news"))).toHaveLength(6);
});

test("a terminal that was made narrower gets a clean screen", () => {
  const { terminal, lines } = aScreen(100);
  const board = new Board(terminal);
  board.draw(scene(500, 1));
  Object.assign(terminal, { columns: 40 });
  board.draw(scene(1500, 2));
  const shown = lines();
  expect(shown[0]).toBe("  1.5 s of 15");
  expect(Math.max(...shown.map((line) => line.length))).toBeLessThan(40);
});
