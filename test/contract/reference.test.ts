/**
 * The reference model is the specification, so it keeps its own contract; its epoch here shows that fences carry one.
 */
import { openReference } from "../support/stores/reference-as-store.ts";
import { counterHintTitle } from "./cases/documents/counter-cases.ts";
import { gateHintTitle } from "./cases/gate-cases.ts";
import { hintTitle, owedHintTitle } from "./cases/hint-cases.ts";
import { closedKeysTitle, laneHintTitle } from "./cases/lane-cases.ts";
import { signalHintTitle } from "./cases/durable/journal-cases.ts";
import { describeStoreContract } from "./contract-suite.ts";

describeStoreContract("the reference model", async ({ platform }) => openReference(platform, 3), {
  [gateHintTitle]: "the reference model is a specification of answers and gives no hints",
  [laneHintTitle]: "the reference model is a specification of answers and gives no hints",
  [closedKeysTitle]:
    "the reference model looks at all jobs for each that it claims, so a thousand keys take minutes",
  [counterHintTitle]: "the reference model is a specification of answers and gives no hints",
  [hintTitle]: "the reference model is a specification of answers and gives no hints",
  [owedHintTitle]: "the reference model is a specification of answers and gives no hints",
  [signalHintTitle]: "the reference model is a specification of answers and gives no hints",
});
