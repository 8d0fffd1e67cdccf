/**
 * Seeds that show a bug which the simulation once found, each with what it was; proved by planting the bug again. They
 * run for ever, before the others. Whoever changes what a seed draws (plan, workload, network) plants the bugs again
 * and names the seeds that find them then.
 */
export const pastSeeds: readonly (readonly [seed: number, found: string])[] = [
  [
    2,
    "a worker cut off past its lease took the same lease up again as a lost one and ran the job twice under one fence",
  ],
  [13, "rescheduling a snoozed job burnt the attempt that the snooze had given back"],
  [
    58,
    "a job whose cancel was asked for was retried, because its worker had not heard of the cancel when it settled",
  ],
  [
    237,
    "a job of a lost claim was logged with a fraction of a microsecond, which ended its replay as record-unreadable",
  ],
  [
    10163,
    "a claim was answered after its leases had ended, and its jobs were started while their own process reclaimed them",
  ],
  [
    342,
    "a replay was planned while another was under way, and brought a node back without holding what had counted its end",
  ],
  [
    135,
    "the clock of a key's rate rang for a job that was gone, and was told to every claim of every worker from then on",
  ],
];

/** The same for the store of three partitions. */
export const pastPartitionSeeds: typeof pastSeeds = [
  [
    13,
    "a worker without leases whose search for a lost claim was never answered did not ask again, and claimed no more",
  ],
  [
    75,
    "a process that heard no hints did not know of a retry that it had set itself, and promoted it 3.2 s late",
  ],
];

/** The same for a bucket and its writers. */
export const pastBucketSeeds: typeof pastSeeds = [
  [
    93,
    "a lease was extended, then its writer was replaced by one whose clock was behind, and the lease revoked at an earlier time: the checker took the order of times for the order of calls",
  ],
  [
    1033,
    "an operator gave up, with all faults over, because his call met a writer that another one took over: the world left gates shut",
  ],
  [
    1040,
    "a claim took the next job of a lane while the claim of the one before it had not landed, which loses nothing, and was found to be early",
  ],
  [
    1311,
    "a writer that was paused, replaced and woken answered a read from its copy before it had tried to put: nobody is promised more, and the world now takes such an answer for none",
  ],
  [
    692,
    "a node read a due document that never landed, and deleted by its version another one at the next writer: who is not in the writer's process must wait for the landing of every read",
  ],
  [
    1936,
    "two jobs of a group with caps that differ were taken by one claim, and the one of the smaller cap, taken first, was found to have no room",
  ],
  [
    1524,
    "a submit of a process that had died waited at a paused writer, and the world ended the drain before the submit happened at the next writer",
  ],
  [
    672,
    "a renewal was committed by a writer that had been replaced, never landed, was tried again at the next one, and was kept by the world with its first answer",
  ],
];
