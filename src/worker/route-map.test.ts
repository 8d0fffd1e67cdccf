import { describe, expect, test } from "vitest";
import { job } from "../engine/definition.ts";
import { routeNumber } from "../model/route.ts";
import { BatchPool } from "./batch-pool.ts";
import { batchHandler, handler } from "./handler.ts";
import { Pool } from "./pool.ts";
import { RouteMap } from "./route-map.ts";

const mail = handler(job("mail"), () => {});
const rows = batchHandler(job("rows"), { size: 10 }, async () => {});
const singles = new Pool({ queue: "main", slots: 1, names: new Set(["mail"]), jobsPerSlot: 1 });
const batches = new BatchPool("main", rows);

const routes = new RouteMap([singles, batches], [mail, rows]);
const [mailRoute, rowsRoute] = [routeNumber("main", "mail"), routeNumber("main", "rows")];
const ready = (...numbers: number[]) => ({ kind: "ready", routes: numbers }) as const;

describe("a route map", () => {
  test("finds pool, handler and title of a job by its route", () => {
    expect(routes.poolOf({ route: mailRoute })).toBe(singles);
    expect(routes.handlerOf({ route: mailRoute })).toBe(mail);
    expect(routes.poolOf({ route: rowsRoute })).toBe(batches);
    expect(routes.handlerOf({ route: rowsRoute })).toBe(rows);
    expect(routes.titleOf({ route: rowsRoute })).toMatchObject({ queue: "main", name: "rows" });
    expect([routes.routesOf(singles), routes.routesOf(batches)]).toEqual([[mailRoute], [rowsRoute]]);
  });

  test("gives no pool to another queue, to a name without a handler and to capabilities", () => {
    const others = [
      routeNumber("other", "mail"),
      routeNumber("main", "unknown"),
      routeNumber("main", "mail", ["gpu"]),
    ];
    for (const route of others) {
      expect(routes.poolOf({ route })).toBeUndefined();
      expect(routes.titleOf({ route })).toEqual({});
    }
  });

  test("takes a hint as meant for a pool when it names a route of it", () => {
    expect(routes.concerns(ready(mailRoute), singles)).toBe(true);
    expect(routes.concerns(ready(mailRoute), batches)).toBe(false);
    expect(routes.concerns(ready(routeNumber("other", "mail")), singles)).toBe(false);
  });
});
