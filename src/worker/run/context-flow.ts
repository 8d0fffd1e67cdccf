/**
 * A flow as the handler of one of its nodes sees it: its id, its node, and the methods of the builder. New nodes are
 * added when the handler's own job completes.
 */
import { Flow } from "../../engine/flows/flow.ts";
import type { BuiltNode } from "../../engine/flows/flow.ts";
import { pathOfId } from "../../model/flow/flow-meta.ts";

export class ContextFlow extends Flow {
  /** The id of the whole flow. */
  readonly id: string;
  /** The path of this node. */
  readonly node: string;

  /** @param adding called with nodes before they are added; if it throws, they are refused. */
  constructor(member: string, adding: (flow: Flow, nodes: readonly BuiltNode[]) => void) {
    super("growing");
    this.node = pathOfId(member);
    this.id = member.slice(0, member.length - this.node.length - 1);
    const push = this.nodes.push.bind(this.nodes);
    // All methods of the builder add their nodes by this call. A handler may still call them after it has returned.
    this.nodes.push = (...nodes) => {
      adding(this, nodes);
      return push(...nodes);
    };
  }
}
