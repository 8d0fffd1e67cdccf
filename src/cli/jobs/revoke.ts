/** `millrace revoke`: takes a running job from its worker. */
import { command } from "../command.ts";
import { changeOne } from "./change-one.ts";

export const revoke = command({
  name: "revoke",
  words: "ID",
  summary: "take a running job from its worker; any worker may start it again at once",
  options: {},
  examples: ["revoke 0198c2…"],
  run: (call) =>
    changeOne(call, { word: "revoked", sentence: "was taken from its worker" }, (mill, id) =>
      mill.jobs.revoke(id),
    ),
});
