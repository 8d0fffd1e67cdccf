/**
 * The line of a lane beside a sorted list: whatever joins, leaves and is taken, both have the same jobs in the same
 * order.
 */
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, it } from "vitest";
import { statementsOf } from "./connection.ts";
import type { SqlValue, Statements } from "./connection.ts";
import { LaneLine, shownLineOf } from "./lane-line.ts";
import type { LineRow, Place } from "./lane-line.ts";
import { migrations } from "./schema.ts";

const lane = 7;

function openStatements(): Statements {
  const database = new DatabaseSync(":memory:");
  for (const { sql } of migrations) database.exec(sql);
  return statementsOf(database);
}

/** As the row of the lane brings it to the next call. */
function reread(statements: Statements, line: LaneLine): LaneLine {
  const row: SqlValue[] = [];
  line.pushTo(row);
  return new LaneLine(statements, lane, shownLineOf(row as unknown as LineRow));
}

function drain(line: LaneLine): Place[] {
  const places: Place[] = [];
  for (; line.first !== null; line.shift()) places.push(line.first);
  return places;
}

const anyPlace = fc.record({
  rank: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom(-(2 ** 52), 2 ** 52, 1_700_000_000_000)),
  route: fc.constantFrom(1, 1, 1, 2),
  timerAt: fc.constantFrom(null, null, null, 5),
});
const anyStep = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("join" as const), place: anyPlace }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("leave" as const), at: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("shift" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("put back" as const), count: fc.nat({ max: 3 }) }) },
);

it("has the jobs that a sorted list has, in its order", () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 80 }), (steps) => {
      const statements = openStatements();
      let line = new LaneLine(statements, lane);
      let places: Place[] = [];
      let seq = 0;
      for (const step of steps) {
        if (step.kind === "join") {
          const place = { ...step.place, seq: ++seq };
          line.join(place);
          places.push(place);
          places.sort((one, other) => one.rank - other.rank || one.seq - other.seq);
        } else if (step.kind === "leave") {
          const left = places[step.at % Math.max(places.length, 1)];
          if (left !== undefined) line.leave(left);
          places = places.filter((place) => place !== left);
        } else if (step.kind === "shift") {
          line.shift();
          places = places.slice(1);
        } else {
          // Taken by a claim, and not leased after all.
          const taken = places.slice(0, step.count);
          for (const _ of taken) line.shift();
          line.putBack(taken);
        }
        line = reread(statements, line);
        expect(line.first).toEqual(places[0] ?? null);
      }
      expect(drain(line)).toEqual(places);
      expect(statements("SELECT count(*) FROM millrace_line").get()).toEqual([0]);
    }),
  );
});

it("keeps a long line of one route in few rows of its own table, and takes them out as they come to the front", () => {
  const statements = openStatements();
  let line = new LaneLine(statements, lane);
  const rows = (): unknown => statements("SELECT count(*) FROM millrace_line").get();
  const places = Array.from({ length: 40 }, (_, at) => ({
    rank: at >> 1,
    seq: at + 1,
    route: 1,
    timerAt: null,
  }));
  for (const place of places) line.join(place);
  expect(rows()).toEqual([36]);
  for (let taken = 0; taken < 17; taken++) line.shift();
  line = reread(statements, line);
  expect(rows()).toEqual([19]);
  expect(drain(line)).toEqual(places.slice(17));
});
