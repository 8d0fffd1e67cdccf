/**
 * A map that never grows beyond its maximum: a new entry evicts the oldest. For caches only: losing an entry must cost
 * time and nothing else. Setting a key again makes its entry the newest; reading it does not.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #entriesMax: number;

  constructor(entriesMax: number) {
    super();
    this.#entriesMax = entriesMax;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#entriesMax) this.delete(this.keys().next().value as Key);
    return this;
  }
}
