/**
 * The other end of a link, as the code inside a thread or a child process sees it: messages of the thread, or
 * descriptor 3 of the process. When the line of a process breaks, whoever started it is gone: the process then ends
 * with its group, so that nothing is left behind.
 */
import { Socket } from "node:net";
import { isMainThread, parentPort } from "node:worker_threads";

export interface OwnLine {
  send(text: string): void;
  listen(heard: (piece: Buffer | string) => void): void;
  /** Resolves when what was printed here is out; null where nothing waits. */
  outputSent(): Promise<unknown> | null;
  /** Ends this thread or process, once what was sent is on its way. */
  leave(): void;
}

export function openOwnLine(): OwnLine {
  return isMainThread ? openDescriptor() : openPort();
}

function outputSent(): Promise<unknown> | null {
  const waiting = [process.stdout, process.stderr].filter(({ writableLength }) => writableLength > 0);
  if (waiting.length === 0) return null;
  return Promise.all(
    waiting.map((stream) => new Promise<void>((resolve) => void stream.write("", () => resolve()))),
  );
}

function openPort(): OwnLine {
  return {
    outputSent,
    send: (text) => parentPort?.postMessage(text),
    listen: (heard) => void parentPort?.on("message", heard),
    leave: () => process.exit(0),
  };
}

function openDescriptor(): OwnLine {
  const socket = new Socket({ fd: 3, readable: true, writable: true });
  const lost = (): void => {
    // The leader of the group is this process; where there are no groups, it ends alone.
    try {
      process.kill(-process.pid, "SIGKILL");
    } catch {
      process.exit(1);
    }
  };
  socket.on("error", lost);
  socket.on("end", lost);
  return {
    outputSent,
    send: (text) => void socket.write(text),
    listen: (heard) => void socket.on("data", heard),
    leave() {
      socket.off("end", lost);
      socket.end(() => process.exit(0));
    },
  };
}
