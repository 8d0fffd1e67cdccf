/**
 * The embedded store keeps the contract in a thread too. A file of its own: every case starts a thread, which takes its
 * time.
 */
import { describeStoreContract } from "./contract-suite.ts";
import { openOnFile } from "./sqlite-stores.ts";

describeStoreContract("sqlite on a file, in a thread", openOnFile("thread"));
