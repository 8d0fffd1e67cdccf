// A handler's file that forgot its handler.
export default { resize: 1 };
