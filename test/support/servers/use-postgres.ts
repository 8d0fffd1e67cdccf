/** A Postgres database for a test file or a describe block, with the hooks that make and drop it. */
import { afterAll, beforeAll } from "vitest";
import { createTestDatabase, postgresSources } from "./postgres-shared.ts";
import type { LentDatabase, PostgresSource, TestDatabase } from "./postgres-shared.ts";

/** On the first server that this machine can test on, unless a binary is given. */
export function useTestDatabase(source?: PostgresSource): LentDatabase {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase(source ?? (postgresSources()[0] as PostgresSource));
  });
  afterAll(() => database.drop());
  return {
    get url() {
      return database.url;
    },
    get pool() {
      return database.pool;
    },
    query: (text, values) => database.query(text, values),
  };
}
