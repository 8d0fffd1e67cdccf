/**
 * What one partition sees of the servers of a store (cluster-nodes.ts): a client of the server that has its keys now.
 */
import type { ClusterNodes, Node } from "./cluster-nodes.ts";
import { connectIfIdle, holdProcess } from "./driver.ts";
import type { RedisClient } from "./driver.ts";
import { hostOf } from "./cluster-slot.ts";

type Run = (...args: never[]) => void;

const redirectsMax = 5;

export class ClusterView implements RedisClient {
  readonly slot: number | null;
  readonly #nodes: ClusterNodes;
  readonly #runs = new Map<string, Run[]>();
  readonly #channels = new Set<string>();
  #node: Node | null = null;

  constructor(nodes: ClusterNodes, slot: number | null) {
    this.#nodes = nodes;
    this.slot = slot;
  }

  /** Keeps the process alive only while a partition has a call on its way. */
  readonly stream = {
    ref: (): void => {
      const node = this.#node;
      node?.busy.add(this);
      if (node !== null) holdProcess(node.client, true);
    },
    unref: (): void => {
      const node = this.#node;
      node?.busy.delete(this);
      if (node?.busy.size === 0) holdProcess(node.client, false);
    },
    destroy: (): void => this.#node?.client.stream?.destroy?.(),
  };

  get status(): string {
    return this.#node?.client.status ?? "wait";
  }

  get isServed(): boolean {
    return this.status === "ready";
  }

  /** Whether a connection is being made for the first time. */
  get isBeginning(): boolean {
    return this.status === "connecting" || this.status === "connect";
  }

  get address(): string | null {
    return this.#node?.address ?? null;
  }

  on(event: string, run: Run): this {
    this.#runs.set(event, [...(this.#runs.get(event) ?? []), run]);
    // A connection that another partition made is new to this one.
    if (event === "ready" && this.isServed) (run as () => void)();
    return this;
  }

  emit(event: string, ...args: unknown[]): void {
    if (event === "message" && !this.#channels.has(args[0] as string)) return;
    for (const run of this.#runs.get(event) ?? []) (run as (...given: unknown[]) => void)(...args);
  }

  /** From now on the partition lives there. */
  moveTo(node: Node | null): void {
    const before = this.#node;
    if (before === node) return;
    before?.views.delete(this);
    const wasBusy = before?.busy.delete(this) === true;
    if (before?.busy.size === 0) holdProcess(before.client, false);
    this.#node = node;
    if (before?.client.status === "ready") this.emit("close");
    if (node === null) return;
    node.views.add(this);
    if (wasBusy) this.stream.ref();
    if (this.isServed) this.emit("ready");
    else void connectIfIdle(node.client).catch(() => undefined);
  }

  async connect(): Promise<void> {
    if (this.#node === null) this.#nodes.look();
    else await connectIfIdle(this.#node.client);
  }

  disconnect(isAgain = false): void {
    if (isAgain) this.#node?.client.disconnect(true);
    else this.#nodes.release(this);
  }

  async subscribe(channel: string): Promise<unknown> {
    this.#channels.add(channel);
    return this.#client().subscribe(channel);
  }

  async call(command: string, args: readonly (string | number)[]): Promise<unknown> {
    // Whether the connection lives is the same question for all partitions on it.
    if (command === "PING" && this.#node !== null) return this.#nodes.ping(this.#node);
    let client = this.#client();
    for (let redirects = 0; ; redirects++) {
      const over = this.#nodes.lookWhileLate();
      try {
        return await client.call(command, args);
      } catch (error) {
        const [kind, , address] = error instanceof Error ? error.message.split(" ") : [];
        // A slot that is being moved has a part of its keys here and a part there, and no function can work on that: it
        // has to wait.
        if (kind === "ASK")
          throw new Error("TRYAGAIN the slot of this partition is being moved", { cause: error });
        if (kind !== "MOVED" || address === undefined) throw error;
        const named = redirects < redirectsMax ? await this.#follow(address) : null;
        if (named === null)
          throw new Error("TRYAGAIN the slot of this partition has moved", { cause: error });
        client = named;
      } finally {
        over();
      }
    }
  }

  #client(): RedisClient {
    if (this.#node === null) throw new Error("Stream isn't writeable: no server is known to own this slot.");
    return this.#node.client;
  }

  /** The server that was named, where the partition now lives; null while it does not answer. */
  async #follow(address: string): Promise<RedisClient | null> {
    // A server that does not know its own name means the one it was asked under.
    const node = this.#nodes.node(address.startsWith(":") ? hostOf(this.address ?? "") + address : address);
    const { client } = node;
    await connectIfIdle(client).catch(() => undefined);
    this.#nodes.look();
    if (client.status !== "ready") return null;
    this.moveTo(node);
    return client;
  }
}
