/**
 * Every commit of a set of flows is the last of its process: it dies behind each of its calls to the store, and another
 * one has to bring the flow to its right end. redis.test.ts and postgres.test.ts do the same at fewer points.
 */
import { describeFlowCrashes } from "./flow-crash-suite.ts";

describeFlowCrashes({ title: "SQLite" });
