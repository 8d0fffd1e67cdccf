/**
 * The end of a line that a thread or a child process has: messages of the thread, or the descriptors 3 (which it
 * writes) and 4 (which it reads) of the process. When the line of a process breaks, the process that started it is
 * gone; this one then ends with its group, so that nothing is left.
 */
import { Socket } from "node:net";
import { isMainThread, parentPort } from "node:worker_threads";

export interface OwnLine {
  send(text: string): void;
  listen(heard: (piece: Buffer | string) => void): void;
  /** Resolves when what was printed here is out; null if nothing waits. */
  outputSent(): Promise<unknown> | null;
  /** Ends this thread or process, once what was sent is on its way. */
  leave(): void;
}

export function openOwnLine(): OwnLine {
  return isMainThread ? openDescriptors() : openPort();
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

function openDescriptors(): OwnLine {
  const mouth = new Socket({ fd: 3, readable: false, writable: true });
  const ear = new Socket({ fd: 4, readable: true, writable: false });
  const lost = (): void => {
    // The leader of the group is this process; on a system without groups it ends alone.
    try {
      process.kill(-process.pid, "SIGKILL");
    } catch {
      process.exit(1);
    }
  };
  mouth.on("error", lost);
  ear.on("error", lost);
  ear.on("end", lost);
  return {
    outputSent,
    send: (text) => void mouth.write(text),
    listen: (heard) => void ear.on("data", heard),
    leave() {
      ear.off("end", lost);
      mouth.end(() => process.exit(0));
    },
  };
}
