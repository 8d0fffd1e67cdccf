import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { isProcessRunning, processKey } from "./process-key.ts";

const isLinux = process.platform === "linux";
const only = isLinux ? "" : " (skipped: only Linux names its processes for good)";

test.skipIf(!isLinux)(`this process runs, and another one only until it has ended${only}`, async () => {
  const own = processKey() as string;
  expect(isProcessRunning(own)).toBe(true);
  const script = `import(${JSON.stringify(new URL("process-key.ts", import.meta.url).href)})
    .then(({ processKey }) => process.stdout.write(processKey()));process.stdin.resume()`;
  const child = spawn(process.execPath, ["-e", script], { stdio: ["pipe", "pipe", "ignore"] });
  const [key] = (await once(child.stdout, "data")) as [Buffer];
  expect(isProcessRunning(String(key))).toBe(true);
  child.stdin.end();
  await once(child, "exit");
  expect(isProcessRunning(String(key))).toBe(false);
});

test.skipIf(!isLinux)(
  `a number that was given again is another process: a container's writer was number 1 too${only}`,
  () => {
    const [boot, space, id, beganAt] = (processKey() as string).split(" ");
    expect(isProcessRunning(`${boot} ${space} ${id} ${Number(beganAt) - 1}`)).toBe(false);
  },
);

test("of another machine, another container or an earlier boot nobody here can tell", () => {
  const [boot, space, ...rest] = (processKey() ?? "boot space 1 1").split(" ");
  expect(isProcessRunning(["another-boot", space, ...rest].join(" "))).toBeNull();
  expect(isProcessRunning([boot, "pid:[1]", ...rest].join(" "))).toBeNull();
});
