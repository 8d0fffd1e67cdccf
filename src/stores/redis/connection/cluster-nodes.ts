/**
 * The connections of a store of several partitions: one per server, shared by the partitions that live there. Each
 * partition works on a view that looks like a client of its own and follows its slot from server to server: after a
 * failover or a move it is as if the connection had been made anew.
 *
 * Only a call that a server refused because the slot has moved is sent again, to the server that was named. A call
 * whose reply was lost is its caller's to repeat.
 */
import type { Platform, Timer } from "../../../platform/platform.ts";
import { connectIfIdle, holdProcess } from "./driver.ts";
import type { RedisClient } from "./driver.ts";
import { ClusterView } from "./cluster-view.ts";
import { readOwners } from "./cluster-slot.ts";
import type { Owner } from "./cluster-slot.ts";

export interface NodesOptions {
  readonly platform: Platform;
  readonly seeds: readonly string[];
  /**
   * alone: everything lives on the one server. cluster: slots live where the cluster says. any: one server after the
   * other, of those that `addresses` names, as a listener needs it: what is published on one is heard on all.
   */
  readonly kind: "alone" | "cluster" | "any";
  readonly addresses?: () => readonly string[];
  readonly connect: (address: string) => RedisClient;
}

/** One server, and the views that work on it now. */
export interface Node {
  readonly address: string;
  readonly client: RedisClient;
  readonly views: Set<ClusterView>;
  /** Views with a call on its way, which keeps the process alive. */
  readonly busy: Set<ClusterView>;
  /** The last one, for whoever asks soon after. */
  ping: { readonly atUs: number; readonly answer: Promise<unknown> } | null;
}

/** Between two looks at who owns what, while some partition has no server that answers. */
const lookMs = 250;
const answerMaxMs = 1000;
const lateMs = 2000;
const pingUs = 5_000_000;

export class ClusterNodes {
  readonly #options: NodesOptions;
  readonly #nodes = new Map<string, Node>();
  readonly #views = new Set<ClusterView>();
  #addresses: readonly string[];
  #isLooking = false;
  #again: Timer | null = null;
  #isClosed = false;

  constructor(options: NodesOptions) {
    this.#options = options;
    this.#addresses = options.seeds;
  }

  /** Of the server that owns the slot; null for any server. */
  view(slot: number | null): ClusterView {
    const view = new ClusterView(this, slot);
    this.#views.add(view);
    const { kind, seeds } = this.#options;
    if (kind === "alone") view.moveTo(this.node(seeds[0] as string));
    if (kind === "any")
      view.moveTo([...this.#nodes.values()].find(({ views }) => views.size > 0) ?? this.#anyNode());
    return view;
  }

  /** Servers that own slots. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  node(address: string): Node {
    const known = this.#nodes.get(address);
    if (known !== undefined) return known;
    const client = this.#options.connect(address);
    const node: Node = { address, client, views: new Set(), busy: new Set(), ping: null };
    client.on("close", () => (node.ping = null));
    for (const event of ["connect", "ready", "close", "end", "error", "message"])
      client.on(event as "message", (...args) => {
        for (const view of [...node.views]) view.emit(event, ...args);
      });
    client.on("close", () => this.look());
    this.#nodes.set(address, node);
    return node;
  }

  ping(node: Node): Promise<unknown> {
    const nowUs = this.#options.platform.monotonicUs();
    if (node.ping === null || nowUs - node.ping.atUs > pingUs)
      node.ping = { atUs: nowUs, answer: node.client.call("PING", []) };
    return node.ping.answer;
  }

  /** Finds out who owns what, soon and until every view has a server. */
  look(): void {
    if (this.#options.kind === "alone" || this.#isClosed || this.#isLooking) return;
    this.#isLooking = true;
    void (this.#options.kind === "any" ? this.#roam() : this.#ask()).finally(() => {
      this.#isLooking = false;
      this.#again?.cancel();
      if (!this.#isClosed && [...this.#views].some((view) => !view.isServed))
        this.#again = this.#options.platform.setTimer(lookMs, () => this.look(), false);
    });
  }

  /**
   * A call that has no answer after a while may wait for a server that the cluster has given up. @returns ends the
   * watch over it.
   */
  lookWhileLate(): () => void {
    if (this.#options.kind !== "cluster") return () => undefined;
    const { platform } = this.#options;
    const lookAgain = (): Timer =>
      platform.setTimer(
        lateMs,
        () => {
          this.look();
          late = lookAgain();
        },
        false,
      );
    let late = lookAgain();
    return () => late.cancel();
  }

  /** Nobody works on the view any more. */
  release(view: ClusterView): void {
    if (!this.#views.delete(view)) return;
    view.moveTo(null);
    this.#drop();
    if (this.#views.size > 0) return;
    this.#isClosed = true;
    this.#again?.cancel();
    for (const { client } of this.#nodes.values()) client.disconnect();
  }

  async #ask(): Promise<void> {
    const isReady = (address: string): boolean => this.#nodes.get(address)?.client.status === "ready";
    const known = [...new Set([...this.#addresses, ...this.#options.seeds])];
    for (const address of [...known.filter(isReady), ...known.filter((each) => !isReady(each))]) {
      const owners = await this.#ownersBy(address);
      if (owners === null || this.#isClosed) continue;
      this.#addresses = [...new Set(owners.map((owner) => owner.address))];
      this.#assign(owners);
      return;
    }
  }

  /** Null when the server does not say. */
  async #ownersBy(address: string): Promise<Owner[] | null> {
    const { client } = this.node(address);
    try {
      await connectIfIdle(client);
      if (client.status !== "ready") return null;
      return readOwners(await this.#soon(client.call("CLUSTER", ["SLOTS"])), address);
    } catch (error) {
      for (const view of this.#views) view.emit("error", error as Error);
      return null;
    } finally {
      if ((this.#nodes.get(address)?.busy.size ?? 0) === 0) holdProcess(client, false);
    }
  }

  /** A server that has fallen silent must not keep the others from being asked. */
  #soon<Answer>(answer: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const late = this.#options.platform.setTimer(
        answerMaxMs,
        () => reject(new Error("Connection is closed: the server is silent.")),
        false,
      );
      void answer.then(resolve, reject).finally(() => late.cancel());
    });
  }

  #assign(owners: readonly Owner[]): void {
    for (const view of this.#views) {
      const { slot } = view;
      const owner = owners.find(({ from, to }) => slot !== null && from <= slot && slot <= to);
      if (owner !== undefined) view.moveTo(this.node(owner.address));
    }
    this.#drop();
  }

  /** All views on to the next server, unless their own answers or may still. */
  async #roam(): Promise<void> {
    const lost = [...this.#views].filter((view) => !view.isServed && !view.isBeginning);
    const [first] = lost;
    if (first === undefined) return;
    const next = this.#anyNode(first.address);
    for (const view of lost) view.moveTo(next);
    this.#drop();
  }

  #anyNode(address: string | null = null): Node {
    const named = this.#options.addresses?.() ?? [];
    const addresses = named.length === 0 ? this.#options.seeds : named;
    return this.node(addresses[(addresses.indexOf(address ?? "") + 1) % addresses.length] as string);
  }

  /**
   * Servers that own nothing of this store are left. Calls that are still on their way there end with an outcome that
   * is not known.
   */
  #drop(): void {
    for (const [address, { views, client }] of this.#nodes) {
      if (views.size > 0) continue;
      client.disconnect();
      this.#nodes.delete(address);
    }
  }
}
