/**
 * The one connection per process that listens. A pooler in transaction mode accepts LISTEN and drops the messages, and
 * a connection may be dead without an error. So the connection counts as listening only after a self-test: a NOTIFY
 * that this process sends to itself over another connection has come back. The self-test is repeated now and then.
 *
 *  connect ──► LISTEN ──► test passed ──► listening ──► test passed ──► ...
 *     ▲                        │ test failed, broken       │
 *     └── after a while ◄──────┴───────────────────────────┘   meanwhile the watch reads the feed
 *
 * It reconnects by itself and never keeps the process alive. Nothing depends on it: polls find what a lost hint
 * announced.
 */
import type { Platform, Timer } from "../../../platform/platform.ts";
import type { Listener } from "../../../store/watch/watch.ts";
import type { PgListener } from "./driver.ts";

const retryMs = { first: 250, max: 15_000, unheard: 60_000 };
const testWithinMs = 5000;
const testEveryMs = 60_000;
const answerMaxMs = 10_000;
const endMaxMs = 2000;

interface Stream {
  ref?(): void;
  unref?(): void;
  destroy?(): void;
}

function streamOf(client: PgListener): Stream | undefined {
  return (client as { connection?: { stream?: Stream } }).connection?.stream;
}

export interface ListenerOptions {
  readonly platform: Platform;
  readonly channel: string;
  readonly connect: () => PgListener;
  /** Sends a NOTIFY over another connection than the listening one. */
  readonly notify: (channel: string, payload: string) => Promise<unknown>;
  readonly heard: (payload: string) => void;
  /** Called when listening begins or ends: messages that were sent meanwhile are lost. */
  readonly changed: () => void;
}

export function openListener(options: ListenerOptions): Listener {
  const { platform, channel, connect, notify, heard, changed } = options;
  /** Only this listener listens to this channel. */
  const testChannel = `millrace_test_${Buffer.from(platform.randomBytes(9)).toString("base64url")}`;
  let client: PgListener | null = null;
  let isOn = false;
  let isClosed = false;
  let tries = 0;
  let timer: Timer | null = null;
  let ending: Promise<void> = Promise.resolve();
  let tests = 0;
  let awaited: { readonly payload: string; readonly end: (hasHeard: boolean) => void } | null = null;

  /** `isUnheard`: messages are sent and do not arrive, so another try soon would not either. */
  const lost = (from: PgListener, isUnheard: boolean): void => {
    if (client !== from) return;
    client = null;
    const wasOn = isOn;
    isOn = false;
    timer?.cancel();
    awaited?.end(false);
    end(from);
    if (isClosed) return;
    tries += 1;
    const backoffMs = Math.min(retryMs.max, retryMs.first * 2 ** Math.min(tries, 10));
    const delayMs = (isUnheard ? retryMs.unheard : backoffMs) * (0.5 + platform.random());
    timer = platform.setTimer(delayMs, () => void begin(), false);
    if (wasOn) changed();
  };

  const end = (from: PgListener): void => {
    const before = ending;
    const stream = streamOf(from);
    // A caller that awaits the end must not find the process gone before it, nor wait for a peer that went away
    // silently.
    stream?.ref?.();
    const timer = platform.setTimer(endMaxMs, () => stream?.destroy?.());
    ending = from.end().then(
      () => before,
      () => before,
    );
    void ending.then(() => timer.cancel());
  };

  const begin = async (): Promise<void> => {
    const mine = connect();
    client = mine;
    mine.on("error", () => lost(mine, false));
    mine.on("end", () => lost(mine, false));
    mine.on("notification", ({ channel: on, payload = "" }) => {
      if (isClosed) return;
      if (on !== testChannel) heard(payload);
      else if (awaited?.payload === payload) awaited.end(true);
    });
    try {
      await mine.connect();
      const text = `LISTEN "${channel}"; LISTEN "${testChannel}"`;
      await mine.query({ text, values: [], query_timeout: answerMaxMs });
    } catch {
      lost(mine, false);
      return;
    }
    if (client !== mine) return;
    streamOf(mine)?.unref?.();
    await check(mine);
  };

  const check = async (mine: PgListener): Promise<void> => {
    const result = await testItself();
    if (client !== mine) return;
    if (result !== "heard") return lost(mine, result === "swallowed" && !isOn);
    timer = platform.setTimer(testEveryMs, () => void check(mine), false);
    if (isOn) return;
    tries = 0;
    isOn = true;
    changed();
  };

  const testItself = async (): Promise<"heard" | "swallowed" | "not-sent"> => {
    const payload = String(++tests);
    const heardIt = new Promise<boolean>((end) => (awaited = { payload, end }));
    const mine = awaited;
    try {
      await notify(testChannel, payload);
    } catch {
      return "not-sent";
    }
    const timer = platform.setTimer(testWithinMs, () => mine?.end(false), false);
    const hasHeard = await heardIt;
    timer.cancel();
    return hasHeard ? "heard" : "swallowed";
  };

  void begin();
  return {
    isListening: () => isOn,
    async close() {
      isClosed = true;
      isOn = false;
      timer?.cancel();
      awaited?.end(false);
      const mine = client;
      client = null;
      if (mine !== null) end(mine);
      await ending;
    },
  };
}
