import { describe, expect, test } from "vitest";
import { job } from "../engine/definition.ts";
import { limit } from "../engine/limit.ts";
import { limitGateKey } from "../model/gate.ts";
import { routeNumber, routeOf } from "../model/route.ts";
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

  test("knows the route of a definition with limits, and keeps the one without for jobs from before", () => {
    const slack = limit("slack", { concurrency: 3 });
    const limited = handler(job("mail", { limits: [slack.use({ weight: 2 })] }), () => {});
    const map = new RouteMap([singles], [limited]);
    const gates = [{ key: limitGateKey("slack"), weight: 2 }];
    expect(map.routesOf(singles)).toEqual([mailRoute, routeNumber("main", "mail", [], gates)]);
    expect(map.gateKeysOf(singles)).toEqual(["q:main", "l:slack"]);
    expect(map.gateKeysAt({ route: mailRoute })).toEqual(["q:main"]);
  });

  test("learns routes with other limits of the names that it serves, and remembers whose the others are", () => {
    const map = new RouteMap([singles], [mail]);
    const gates = [{ key: limitGateKey("slack"), weight: 1 }];
    const learned = routeOf({ queue: "main", name: "mail", gates });
    const others = [
      routeOf({ queue: "other", name: "mail", gates }),
      routeOf({ queue: "main", name: "rows", gates }),
      routeOf({ queue: "main", name: "mail", caps: ["gpu"] }),
    ];
    expect(map.knows(learned.number)).toBe(false);
    expect(map.learn([learned, ...others])).toBe(true);
    expect(map.poolOf({ route: learned.number })).toBe(singles);
    expect(map.concerns(ready(learned.number), singles)).toBe(true);
    expect(others.map(({ number }) => [map.knows(number), map.poolOf({ route: number })])).toEqual(
      others.map(() => [true, undefined]),
    );
    expect(map.learn([learned, ...others])).toBe(false);
    expect(map.routesOf(singles)).toEqual([mailRoute, learned.number]);
  });

  test("takes a hint as meant for a pool when it names a route of it", () => {
    expect(routes.concerns(ready(mailRoute), singles)).toBe(true);
    expect(routes.concerns(ready(mailRoute), batches)).toBe(false);
    expect(routes.concerns(ready(routeNumber("other", "mail")), singles)).toBe(false);
  });
});
