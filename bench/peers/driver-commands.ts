/**
 * Counts every command that the driver ioredis sends in this process, whoever sends it and on whatever connection:
 * Millrace and BullMQ share one driver. What a function or script does inside the server counts as one command, the
 * call.
 */
import { Redis } from "ioredis";

type Send = (this: Redis, ...given: unknown[]) => unknown;

export function watchCommands(): () => number {
  let sent = 0;
  const prototype = Redis.prototype as unknown as { sendCommand: Send };
  const { sendCommand } = prototype;
  prototype.sendCommand = function (...given) {
    sent += 1;
    return sendCommand.apply(this, given);
  };
  return () => sent;
}
