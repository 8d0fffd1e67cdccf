/**
 * The lifecycle rules of a bucket that would take objects of a store away: from the provider's own document to a
 * sentence for each rule. What deletes only old versions of an object, or only objects with a tag, is no danger.
 */

/** The XML of GetBucketLifecycleConfiguration. `prefix`: of the store, "" or a path that ends with a slash. */
export function s3DeletionRules(xml: string, prefix: string): string[] {
  return partsOf(xml, "Rule").flatMap((rule) => {
    const [filter = ""] = partsOf(rule, "Filter");
    const [rulePrefix = ""] = partsOf(filter === "" ? rule : filter, "Prefix").map(unescaped);
    const isOn = partsOf(rule, "Status")[0] === "Enabled";
    if (!isOn || filter.includes("<Tag>") || !overlaps(rulePrefix, prefix)) return [];
    const what = nameOf(unescaped(partsOf(rule, "ID")[0] ?? ""), rulePrefix, prefix);
    const [expiration = ""] = partsOf(rule, "Expiration");
    const [days] = partsOf(expiration, "Days");
    const [date] = partsOf(expiration, "Date");
    const classes = partsOf(rule, "Transition").flatMap((move) => partsOf(move, "StorageClass"));
    const archives = classes.filter((kind) => /^(GLACIER|DEEP_ARCHIVE)$/.test(kind));
    return [
      ...(days === undefined
        ? []
        : [`${what} deletes objects of this store ${days} days after they were put`]),
      ...(date === undefined ? [] : [`${what} deletes objects of this store from ${date} on`]),
      ...(archives.length === 0
        ? []
        : [`${what} moves objects of this store into an archive, where nobody can read them`]),
    ];
  });
}

interface GcsBucket {
  readonly lifecycle?: { readonly rule?: readonly GcsRule[] };
}
interface GcsRule {
  readonly action?: { readonly type?: string };
  readonly condition?: {
    readonly age?: number;
    readonly isLive?: boolean;
    readonly daysSinceNoncurrentTime?: number;
    readonly numNewerVersions?: number;
    readonly matchesPrefix?: readonly string[];
  };
}

/** The JSON of a bucket with its field `lifecycle`. */
export function gcsDeletionRules(bucket: GcsBucket, prefix: string): string[] {
  return (bucket.lifecycle?.rule ?? []).flatMap(({ action, condition = {} }, at) => {
    const { age, isLive, daysSinceNoncurrentTime, numNewerVersions, matchesPrefix = [] } = condition;
    const isOfOldVersions =
      isLive === false || daysSinceNoncurrentTime !== undefined || (numNewerVersions ?? 0) > 0;
    const rulePrefix = matchesPrefix.length === 0 ? "" : matchesPrefix.find((one) => overlaps(one, prefix));
    if (action?.type !== "Delete" || isOfOldVersions || rulePrefix === undefined) return [];
    const when = age === undefined ? "when its condition holds" : `${age} days after they were put`;
    return [`${nameOf(String(at + 1), rulePrefix, prefix)} deletes objects of this store ${when}`];
  });
}

function overlaps(rule: string, store: string): boolean {
  return store.startsWith(rule) || rule.startsWith(store);
}

function nameOf(id: string, rule: string, store: string): string {
  const part = rule.startsWith(store) ? rule.slice(store.length) : "";
  return `The lifecycle rule ${id === "" ? "without a name" : JSON.stringify(id)}${part === "" ? "" : ` (under ${part})`}`;
}

function partsOf(xml: string, tag: string): string[] {
  return [...xml.matchAll(new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`, "g"))].map(
    ([, text]) => text as string,
  );
}

function unescaped(text: string): string {
  const signs: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => signs[name] as string);
}
