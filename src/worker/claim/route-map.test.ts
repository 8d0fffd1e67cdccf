import { describe, expect, test } from "vitest";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { limitGateKey } from "../../model/limits/gate.ts";
import { routeNumber, routeOf } from "../../model/routing/route.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { BatchPool } from "./batch-pool.ts";
import { batchHandler, handler } from "../handler.ts";
import { Pool } from "./pool.ts";
import type { KindShare } from "./pool-routes.ts";
import { RouteMap } from "./route-map.ts";

const mail = handler(job("mail"), () => {});
const rows = batchHandler(job("rows"), { size: 10 }, async () => {});
const newPool = (): Pool => new Pool({ queue: "main", slots: 1, names: new Set(["mail"]), jobsPerSlot: 1 });
const singles = newPool();
const batches = new BatchPool("main", rows);

/** What the next claims offer for a pool, over all kinds of its routes. */
const offered = (pool: Pool): readonly number[] => {
  pool.addDemand();
  return pool.routes.share(10).flatMap(({ kind }) => kind.next());
};

const routes = new RouteMap([singles, batches], [mail, rows]);
const [mailRoute, rowsRoute] = [routeNumber("main", "mail"), routeNumber("main", "rows")];

describe("a route map", () => {
  test("finds pool, handler and title of a job by its route", () => {
    expect(routes.poolOf({ route: mailRoute })).toBe(singles);
    expect(routes.handlerOf({ route: mailRoute })).toBe(mail);
    expect(routes.poolOf({ route: rowsRoute })).toBe(batches);
    expect(routes.handlerOf({ route: rowsRoute })).toBe(rows);
    expect(routes.titleOf({ route: rowsRoute })).toMatchObject({ queue: "main", name: "rows" });
    expect([offered(singles), offered(batches)]).toEqual([[mailRoute], [rowsRoute]]);
  });

  test("gives no pool to another queue, to a name without a handler and to capabilities", () => {
    const others = [
      routeNumber("other", "mail"),
      routeNumber("main", "unknown"),
      routeNumber("main", "mail", ["gpu"]),
    ];
    for (const route of others) {
      expect(routes.poolOf({ route })).toBeUndefined();
      expect(routes.titleOf({ route })).toEqual({ queue: "", name: "" });
    }
  });
});

describe("a route map of a worker whose jobs have limits", () => {
  const slack = limit("slack", { concurrency: 3 });
  const gates = [{ key: limitGateKey("slack"), weight: 2 }];

  test("knows the route of a definition with limits, and keeps the one without for jobs from before", () => {
    const limited = handler(job("mail", { limits: [slack.use({ weight: 2 })] }), () => {});
    const pool = newPool();
    const map = new RouteMap([pool], [limited]);
    expect(offered(pool)).toEqual([mailRoute, routeNumber("main", "mail", [], gates)]);
    expect(map.gateKeysOf(pool)).toEqual(["q:main", "l:slack"]);
    expect(map.gateKeysAt({ route: mailRoute })).toEqual(["q:main"]);
  });

  test("learns routes with other limits of the names that it serves", () => {
    const pool = newPool();
    const map = new RouteMap([pool], [mail]);
    const learned = routeOf({ queue: "main", name: "mail", gates });
    const others = [
      routeOf({ queue: "other", name: "mail", gates }),
      routeOf({ queue: "main", name: "rows", gates }),
      routeOf({ queue: "main", name: "mail", requires: ["gpu"], gates }),
      { ...learned, number: learned.number + 1 },
    ];
    expect(map.learn([learned, ...others])).toBe(true);
    expect(map.poolOf({ route: learned.number })).toBe(pool);
    for (const { number } of others) expect(map.poolOf({ route: number })).toBeUndefined();
    expect(map.learn([learned, ...others])).toBe(false);
    expect(offered(pool)).toEqual([mailRoute, learned.number]);
  });

  test("knows the route of a job that is submitted here with limits of its own", () => {
    const pool = newPool();
    const map = new RouteMap([pool], [mail]);
    expect(map.poolFor({ queue: "main", name: "mail", gates })).toBe(pool);
    expect(offered(pool)).toEqual([mailRoute, routeNumber("main", "mail", [], gates)]);
  });
});

describe("a route map of a worker with capabilities", () => {
  const withCapabilities = (capabilities: readonly string[]) => {
    const pool = newPool();
    const map = new RouteMap([pool], [mail], capabilities);
    // All that is known is offered.
    offered(pool);
    return { pool, routes: map };
  };
  const route = (requires: readonly string[], content: { queue?: string; name?: string } = {}) =>
    routeOf({ queue: "main", name: "mail", requires, ...content });

  test("serves every route whose capabilities are all among its own, and gives its pool demand", () => {
    const { pool, routes: map } = withCapabilities(["eu", "gpu"]);
    const served = [route(["eu"]), route(["gpu"]), route(["eu", "gpu"])];
    const others = [
      route(["ssd"]),
      route(["eu", "gpu", "ssd"]),
      route(["gpu"], { queue: "other" }),
      route(["gpu"], { name: "rows" }),
    ];
    expect(map.learn(others)).toBe(false);
    expect(pool.routes.hasDemand).toBe(false);
    expect(map.learn([...others, ...served, route([])])).toBe(true);
    expect(pool.routes.hasDemand).toBe(true);
    expect(offered(pool)).toEqual([mailRoute, ...served.map(({ number }) => number)]);
    expect(map.handlerOf({ route: route(["eu"]).number })).toBe(mail);
    for (const { number } of others) expect(map.poolOf({ route: number })).toBeUndefined();
    expect(map.learn([...others, ...served])).toBe(false);
  });

  test("does not believe a record that asks for less than its number says", () => {
    const { pool, routes: map } = withCapabilities(["eu"]);
    const damaged = [
      { ...route(["gpu"]), requires: [] },
      { ...route(["gpu"]), requires: ["eu"] },
    ];
    expect(map.learn(damaged)).toBe(false);
    expect(offered(pool)).toEqual([mailRoute]);
  });

  test("knows the route of a job that is submitted here without being told", () => {
    const { pool, routes: map } = withCapabilities(["gpu"]);
    expect(map.poolFor({ queue: "main", name: "mail", requires: ["gpu"] })).toBe(pool);
    expect(map.poolFor({ queue: "main", name: "mail", requires: ["eu"] })).toBeUndefined();
    expect(map.poolFor({ queue: "main", name: "mail" })).toBe(pool);
    expect(offered(pool)).toEqual([mailRoute, route(["gpu"]).number]);
  });

  test("offers many routes in rotation, each once before the pool is idle, the plain ones always", () => {
    const names = Array.from({ length: 150 }, (_, at) => `c${at}`);
    const { pool, routes: map } = withCapabilities(names);
    const served = names.map((name) => route([name]));
    map.learn(served);
    const all = new Set<number>();
    const [{ kind }] = pool.routes.share(10) as [KindShare];
    for (const isLast of [false, false, true]) {
      const [plain, ...next] = kind.next();
      expect(plain).toBe(mailRoute);
      expect(next).toHaveLength(storeLimits.learnedRoutesPerOfferMax);
      for (const number of next) all.add(number);
      expect(kind.hasDemand).toBe(!isLast);
    }
    expect(all).toEqual(new Set(served.map(({ number }) => number)));
    pool.addDemand();
    expect(kind.hasDemand).toBe(true);
  });
});

describe("a route map of a worker whose jobs have groups", () => {
  const definitions = [
    job("plain"),
    job("fair", { group: "a" }),
    job("ordered", { group: { key: "a", concurrency: 1 } }),
    job("keyed", { limits: [limit("api", { perKey: { concurrency: 1 } }).use({ key: "k" })] }),
  ];
  const grouped = (): Pool => {
    const names = new Set(definitions.map(({ name }) => name));
    const pool = new Pool({ queue: "main", slots: 9, names, jobsPerSlot: 1 });
    new RouteMap(
      [pool],
      definitions.map((each) => handler(each, () => {})),
    );
    return pool;
  };
  const numbers = (order: "rank" | "turn" | null, names: readonly string[]) =>
    names.map((name) => routeNumber("main", name, [], [], order));

  test("offers the routes of each lane order apart, and the plain ones of all names for jobs from before", () => {
    const pool = grouped();
    const offers = pool.routes.share(9).map(({ kind, max }) => [kind.order, max, kind.next()]);
    expect(offers).toEqual([
      [null, 3, numbers(null, ["plain", "fair", "ordered", "keyed"])],
      ["turn", 3, numbers("turn", ["fair"])],
      ["rank", 3, numbers("rank", ["ordered", "keyed"])],
    ]);
    expect(pool.routes.hasDemand).toBe(false);
    pool.addDemand("rank");
    expect(pool.routes.share(9).map(({ kind, max }) => [kind.order, max])).toEqual([["rank", 9]]);
  });

  test("with fewer slots than kinds lets the kinds with demand alternate, and knows that there is more", () => {
    const pool = grouped();
    const orders = Array.from({ length: 3 }, () => {
      pool.addDemand();
      const shares = pool.routes.share(1);
      for (const { kind } of shares) kind.next();
      expect(pool.routes.hasDemand).toBe(true);
      return shares.map(({ kind, max }) => [kind.order, max]);
    });
    expect(orders).toEqual([[[null, 1]], [["turn", 1]], [["rank", 1]]]);
  });

  test("learns routes with lanes, and does not believe one whose order is not that of its number", () => {
    const pool = newPool();
    const map = new RouteMap([pool], [mail]);
    const learned = routeOf({ queue: "main", name: "mail", laneKey: "x", laneStep: 1 });
    expect(map.learn([{ ...learned, lanes: "rank" }])).toBe(false);
    expect(map.learn([learned])).toBe(true);
    expect(map.lanesOf({ route: learned.number })).toBe("turn");
    const submitted = { queue: "main", name: "mail", laneKey: "y", laneStep: null };
    expect(map.poolFor(submitted)).toBe(pool);
    expect(map.lanesOf({ route: routeOf(submitted).number })).toBe("rank");
  });
});
