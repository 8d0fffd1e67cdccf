/**
 * CPU time of a synchronous piece of work, in milliseconds: unlike the wall clock it does not know how busy the machine
 * is.
 */
export function cpuMsOf(run: () => void): number {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
