/** Looks and hands at the keys of a Redis store, past its library. */
import type { Redis } from "ioredis";
import { stateCodes } from "../../src/model/job-state.ts";
import { asInSpec, initialText, specFields, stateFields } from "../../src/stores/redis/packed-fields.ts";

const fieldEnd = "\x1f";

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
    case "list":
      return client.lrange(key, 0, -1);
    default:
      return client.xrange(key, "-", "+");
  }
}

/** Makes a ready job blocked, as no operation of the contract does yet. */
export async function blockJob(client: Redis, prefix: string, id: string): Promise<void> {
  const tag = `{${prefix}:0}`;
  const handle = (await client.hget(`${tag}:ids`, id)) as string;
  const spec = ((await client.hget(`${tag}:spec`, handle)) as string).split(fieldEnd);
  const inSpec = (name: (typeof specFields)[number]): string => spec[specFields.indexOf(name)] as string;
  const state = stateFields.map((name) => {
    if (name === "state") return String(stateCodes.blocked);
    if ((asInSpec as readonly string[]).includes(name)) return "";
    return specFields.includes(name) ? inSpec(name) : initialText(name);
  });
  const route = inSpec("route");
  await client.hset(`${tag}:state`, handle, state.join(fieldEnd));
  await client.zrem(`${tag}:ready:${route}`, handle);
  await client.hincrby(`${tag}:tally`, `${route}:${stateCodes.blocked}`, 1);
}
