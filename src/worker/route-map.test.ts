import { describe, expect, test } from "vitest";
import { job } from "../engine/definition.ts";
import { BatchPool } from "./batch-pool.ts";
import { batchHandler, handler } from "./handler.ts";
import { Pool } from "./pool.ts";
import { RouteMap } from "./route-map.ts";

const mail = handler(job("mail"), () => {});
const rows = batchHandler(job("rows"), { size: 10 }, async () => {});
const singles = new Pool({ queue: "main", slots: 1, names: new Set(["mail"]), jobsPerSlot: 1 });
const batches = new BatchPool("main", rows);

const openMap = (): RouteMap => new RouteMap([singles, batches], [mail, rows]);
const route = (number: number, name: string, queue = "main", caps: readonly string[] = []) => ({
  number,
  queue,
  name,
  caps,
});
const ready = (...routes: number[]) => ({ kind: "ready", routes }) as const;

describe("a route map", () => {
  test("finds pool, handler and title of a job by its route", () => {
    const routes = openMap();
    expect(routes.learn([route(1, "mail"), route(2, "rows")])).toEqual([singles, batches]);
    expect(routes.poolOf({ route: 1 })).toBe(singles);
    expect(routes.handlerOf({ route: 1 })).toBe(mail);
    expect(routes.poolOf({ route: 2 })).toBe(batches);
    expect(routes.handlerOf({ route: 2 })).toBe(rows);
    expect(routes.titleOf({ route: 2 })).toMatchObject({ queue: "main", name: "rows" });
    expect([routes.routesOf(singles), routes.routesOf(batches)]).toEqual([[1], [2]]);
  });

  test("gives no pool to another queue, to a name without a handler, to capabilities and to a route it never heard of", () => {
    const routes = openMap();
    const grown = routes.learn([
      route(1, "mail", "other"),
      route(2, "unknown"),
      route(3, "mail", "main", ["gpu"]),
    ]);
    expect(grown).toEqual([]);
    for (const number of [1, 2, 3, 4]) expect(routes.poolOf({ route: number })).toBeUndefined();
    expect(routes.titleOf({ route: 4 })).toEqual({});
  });

  test("learns a route once, however often claims bring it", () => {
    const routes = openMap();
    routes.learn([route(1, "mail")]);
    expect(routes.learn([route(1, "mail")])).toEqual([]);
    expect(routes.routesOf(singles)).toEqual([1]);
    expect(routes.highest).toBe(1);
  });

  test("takes a hint as meant for a pool when it names a route of it, or one that is not known yet", () => {
    const routes = openMap();
    routes.learn([route(1, "mail"), route(2, "rows"), route(3, "mail", "other")]);
    expect(routes.concerns(ready(1), singles)).toBe(true);
    expect(routes.concerns(ready(1), batches)).toBe(false);
    expect(routes.concerns(ready(3), singles)).toBe(false);
    expect(routes.concerns(ready(4), singles)).toBe(true);
  });
});
