/**
 * A port of loopback that nobody holds at this moment, another one each time: whom it was given to may still be
 * starting, or be down for a while and want it again.
 */
import { createServer } from "node:net";

const given = new Set<number>();

export async function freePort(): Promise<number> {
  for (;;) {
    const port = await unheldPort();
    if (given.has(port)) continue;
    given.add(port);
    return port;
  }
}

function unheldPort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
