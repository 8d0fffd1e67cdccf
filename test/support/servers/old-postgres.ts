/**
 * A server that speaks just enough of Postgres's protocol to say, to whatever it is asked, that it is of version 13.
 */
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";

export interface OldPostgres {
  readonly url: string;
  /** What it was asked, so that a test can see that nothing was written. */
  readonly asked: readonly string[];
  close(): Promise<void>;
}

const settings = ["130011", "f", "on", "on", "read committed", "off", "UTF8", "on"];

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0, "latin1");
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

const int16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255]);
const int32 = (value: number): Buffer => Buffer.from([0, 0, value >> 8, value & 255]);

const ready = message("Z", Buffer.from("I"));
const text = int32(25);
const columns = settings.map((_, at) =>
  Buffer.concat([Buffer.from(`c${at}\0`), int32(0), int16(0), text, int16(65_535), int32(0), int16(0)]),
);
const values = settings.map((value) => Buffer.concat([int32(value.length), Buffer.from(value)]));
const described = message("T", Buffer.concat([int16(columns.length), ...columns]));
const row = Buffer.concat([
  message("D", Buffer.concat([int16(values.length), ...values])),
  message("C", Buffer.from("SELECT 1\0")),
]);
/** By the message that asks: of a statement with parse, bind, describe, execute and sync, or of a plain text. */
const answers: Readonly<Record<string, Buffer>> = {
  P: message("1", Buffer.alloc(0)),
  B: message("2", Buffer.alloc(0)),
  D: described,
  E: row,
  S: ready,
  Q: Buffer.concat([described, row, ready]),
};

export async function startOldPostgres(): Promise<OldPostgres> {
  const asked: string[] = [];
  const server = createServer((socket) => {
    let isGreeted = false;
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      if (!isGreeted) {
        isGreeted = true;
        socket.write(Buffer.concat([message("R", int32(0)), ready]));
        return;
      }
      for (let at = 0; at < chunk.length; at += 1 + chunk.readInt32BE(at + 1)) {
        const type = chunk.toString("latin1", at, at + 1);
        const body = chunk.toString("utf8", at + 5, at + 1 + chunk.readInt32BE(at + 1));
        if (type === "Q") asked.push(body.slice(0, -1));
        if (type === "P") asked.push(body.split("\0")[1] as string);
        const answer = answers[type];
        if (answer !== undefined) socket.write(answer);
        if (type === "X") socket.end();
      }
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `postgres://old@127.0.0.1:${port}/old`,
    asked,
    close: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}
