// A handler that takes 5 ms of its thread's CPU time: by the clock on the wall a busy machine would do some of it.
export default async () => spin();

export function spin() {
  const from = process.threadCpuUsage();
  for (;;) {
    const { user, system } = process.threadCpuUsage(from);
    if (user + system >= 5000) return;
  }
}
