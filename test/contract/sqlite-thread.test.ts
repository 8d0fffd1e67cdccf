/** The embedded store keeps the contract in a thread too, where requests and answers cross as messages. */
import { describeStoreContract } from "./contract-suite.ts";
import { openInThread } from "./sqlite-stores.ts";

describeStoreContract("sqlite on a file, in a thread", openInThread());
