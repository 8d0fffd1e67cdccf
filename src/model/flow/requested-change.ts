/** The kinds of documents that hold a requested change of a flow until it is carried out. */
export const cancelKind = "flow-cancel";
export const replayKind = "flow-replay";
