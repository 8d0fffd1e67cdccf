/** `millrace revoke`: takes a running job from its worker. */
import { changeOne } from "./change-one.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";

export const revoke: Command = {
  name: "revoke",
  usage: "revoke ID",
  summary: "take a running job from its worker; any worker may start it again at once",
  words: [1, 1],
  options: storeOption,
  examples: ["revoke 0198c2…"],
  run: (call) =>
    changeOne(call, { word: "revoked", told: "was taken from its worker" }, (mill, id) =>
      mill.jobs.revoke(id),
    ),
};
