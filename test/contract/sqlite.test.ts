/** The embedded store keeps the contract, in memory and on a file. */
import { describeStoreContract } from "./contract-suite.ts";
import { journalSkips } from "./journal-skips.ts";
import { openInMemory, openOnFile } from "./sqlite-stores.ts";

describeStoreContract("sqlite in memory", openInMemory, journalSkips("sqlite"));
describeStoreContract("sqlite on a file", openOnFile(), journalSkips("sqlite"));
