/**
 * The keys that sign approval tokens. They are one document of the store, so that every process signs and checks alike;
 * it is sealed like a payload if encryption is on. The first token makes the first key.
 */
import type { Doc } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { rotateKeys } from "./approval-token.ts";
import type { TokenKey } from "./approval-token.ts";

type TokenKeysNeeds = Needs<"store" | "coder" | "platform" | "ids">;

const kind = "token-keys";
const id = "approvals";
const secretBytes = 32;

/** A key as the document has it. */
type KeptKey = readonly [id: string, secret: string, until: number | null];

export class TokenKeys {
  readonly #needs: TokenKeysNeeds;

  constructor(needs: TokenKeysNeeds) {
    this.#needs = needs;
  }

  /** All keys whose tokens are accepted; the first one signs. */
  async read(): Promise<readonly TokenKey[]> {
    return this.#keysOf(await this.#readDoc());
  }

  /** The key that signs. */
  async signing(): Promise<TokenKey> {
    for (;;) {
      const doc = await this.#readDoc();
      const [first] = this.#keysOf(doc);
      if (first !== undefined) return first;
      await this.#put([{ ...this.#draw(), until: null }], doc);
    }
  }

  /** A new key signs from now on. @param graceMs how long the tokens of the present ones are still accepted. */
  async rotate(graceMs: number): Promise<void> {
    const { now } = await this.#needs.store.describe();
    for (;;) {
      const doc = await this.#readDoc();
      if (await this.#put(rotateKeys(this.#keysOf(doc), this.#draw(), { now, graceMs }), doc)) return;
    }
  }

  async #readDoc(): Promise<Doc | undefined> {
    const { docs } = await this.#needs.store.readDocs({ kind, ids: [id] });
    return docs[0];
  }

  #keysOf(doc: Doc | undefined): readonly TokenKey[] {
    if (doc === undefined) return [];
    const kept = this.#needs.coder.decode(doc.body) as readonly KeptKey[];
    return kept.map(([key, secret, until]) => ({
      ...{ id: key, until },
      secret: Buffer.from(secret, "base64url"),
    }));
  }

  #draw(): Pick<TokenKey, "id" | "secret"> {
    const { ids, platform } = this.#needs;
    return { id: ids.mint(), secret: platform.randomBytes(secretBytes) };
  }

  /** @returns false if another process was first. */
  async #put(keys: readonly TokenKey[], over: Doc | undefined): Promise<boolean> {
    const kept = keys.map((key): KeptKey => [
      key.id,
      Buffer.from(key.secret).toString("base64url"),
      key.until,
    ]);
    const body = this.#needs.coder.encode(kept, "the keys of tokens");
    const guard = over === undefined ? "absent" : { version: over.version };
    const [answer] = await this.#needs.store.putDocs([{ kind, id, body, guard }]);
    return answer?.kind === "ok";
  }
}
