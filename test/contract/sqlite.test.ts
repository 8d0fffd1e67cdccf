/** The embedded store keeps the contract, in memory and on a file. */
import { describeStoreContract } from "./contract-suite.ts";
import { openInMemory, openOnFile } from "./sqlite-stores.ts";

describeStoreContract("sqlite in memory", openInMemory);
describeStoreContract("sqlite on a file", openOnFile());
