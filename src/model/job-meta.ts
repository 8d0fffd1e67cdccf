/**
 * What travels with a job beside its input: headers and trace context, one text that stores keep and hand back unread.
 * Written at submit and by an edit before the start, read by handlers and lists.
 */

interface JobMeta {
  readonly headers?: Readonly<Record<string, string>>;
  /** Trace context, handed on unread. */
  readonly trace?: Readonly<Record<string, string>>;
}

/** Null when there are neither headers nor trace: the common case costs a store nothing. */
export function writeMeta({ headers, trace }: JobMeta): string | null {
  return headers === undefined && trace === undefined ? null : JSON.stringify({ headers, trace });
}

/** A text that cannot be read counts as saying nothing: damaged headers must not keep a job from being shown. */
export function readMeta(text: string | null): JobMeta {
  return parseMeta(text) ?? {};
}

/** Null for a text that cannot be read. */
export function parseMeta(text: string | null): JobMeta | null {
  if (text === null) return {};
  try {
    const meta = JSON.parse(text) as JobMeta | null;
    return typeof meta === "object" && meta !== null && isTexts(meta.headers) && isTexts(meta.trace)
      ? meta
      : null;
  } catch {
    return null;
  }
}

function isTexts(value: unknown): boolean {
  if (value === undefined) return true;
  return (
    typeof value === "object" &&
    value !== null &&
    Object.values(value).every((each) => typeof each === "string")
  );
}
