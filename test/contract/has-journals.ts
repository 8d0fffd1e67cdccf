/**
 * The stores that keep journals of durable runs. A store whose line says `true` runs their contract cases, their
 * vectors, and the histories with them.
 */
export type JournalStore = keyof typeof hasJournals;

export const hasJournals = {
  // SQLite on a file, in a thread and in memory.
  sqlite: true,

  // SQLite whose commits go to object storage.
  bucket: true,

  postgres: true,

  // One server, partitions, a cluster.
  redis: true,

  reference: true,
};
