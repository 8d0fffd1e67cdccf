/**
 * A flow as the handler of one of its nodes sees it: which flow and node it is, and the verbs of the builder, whose
 * nodes are added with the completion of the handler's own job.
 */
import { Flow } from "../../engine/flows/flow.ts";
import type { BuiltNode } from "../../engine/flows/flow.ts";
import { pathOfId } from "../../model/flow/flow-meta.ts";

export class ContextFlow extends Flow {
  /** The id of the whole flow. */
  readonly id: string;
  /** The path of this node. */
  readonly node: string;

  /** @param adding told of nodes before they are added; what it throws refuses them. */
  constructor(member: string, adding: (flow: Flow, nodes: readonly BuiltNode[]) => void) {
    super("growing");
    this.node = pathOfId(member);
    this.id = member.slice(0, member.length - this.node.length - 1);
    const push = this.nodes.push.bind(this.nodes);
    // Every verb ends here, and each may come when the handler has long returned.
    this.nodes.push = (...nodes) => {
      adding(this, nodes);
      return push(...nodes);
    };
  }
}
