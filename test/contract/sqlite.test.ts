/** The embedded store keeps the contract, in memory and on a file. */
import { describeBlockedHolder } from "./blocked-holder-suite.ts";
import { describeStoreContract } from "./contract-suite.ts";
import { openBlockable, openInMemory, openOnFile } from "./sqlite-stores.ts";

describeStoreContract("sqlite in memory", openInMemory);
describeStoreContract("sqlite on a file", openOnFile("inline"));
describeBlockedHolder("sqlite on a file", openBlockable());
