/**
 * Queues of Millrace's own, whose jobs are not shown to users as jobs: a permit is counted by its limit, and a flow or
 * a part of one is shown as such. Their names have a control character, so no application has a queue of that name.
 */
import { flowQueue } from "../flow/flow-meta.ts";
import { permitQueue } from "../limits/permit.ts";

export function isHiddenQueue(queue: string): boolean {
  return queue === permitQueue || queue === flowQueue;
}

/** Leaves out what users are not shown. */
export function withoutHidden<Shown extends { readonly queue: string }>(
  all: readonly Shown[],
): readonly Shown[] {
  return all.filter(({ queue }) => !isHiddenQueue(queue));
}
