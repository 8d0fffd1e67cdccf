/** Looks at the keys of a Redis store, past its library. */
import type { Redis } from "ioredis";

/** Every key of the first partition with what it holds, without the token of its entry. */
export async function readKeys(client: Redis, prefix: string): Promise<Record<string, unknown>> {
  const tag = `{${prefix}:0}:`;
  const held: Record<string, unknown> = {};
  for (const key of (await client.keys(`${tag}*`)).toSorted())
    held[key.slice(tag.length)] = await readKey(client, key);
  return held;
}

async function readKey(client: Redis, key: string): Promise<unknown> {
  switch (await client.type(key)) {
    case "hash": {
      const { token: _, ...fields } = await client.hgetall(key);
      return fields;
    }
    case "zset":
      return client.zrange(key, 0, "-1", "WITHSCORES");
    case "set":
      return (await client.smembers(key)).toSorted();
    case "list":
      return client.lrange(key, 0, -1);
    default:
      return client.xrange(key, "-", "+");
  }
}
