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

/** A text that cannot be read counts as saying nothing: damaged headers must not keep a job from being run or shown. */
export function readMeta(text: string | null): JobMeta {
  if (text === null) return {};
  try {
    const meta: unknown = JSON.parse(text);
    return typeof meta === "object" && meta !== null ? meta : {};
  } catch {
    return {};
  }
}
