/** Azurite, Microsoft's emulator of Azure Blob Storage, in a process of its own and in memory. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { exchange } from "../../../src/platform/http-exchange.ts";
import { nodePlatform } from "../../../src/platform/node-platform.ts";
import { signAzure } from "../../../src/stores/bucket/objects/azure-signature.ts";
import { freePort } from "./free-port.ts";
import { serverAt } from "./http-server.ts";
import { hangMs } from "../hang-ms.ts";
import { until } from "../until.ts";

export interface Azurite {
  readonly port: number;
  /** Of its one account. */
  readonly endpoint: string;
  makeContainer(name: string): Promise<void>;
  stop(): Promise<void>;
}

/** Its account and key are the same everywhere; the documentation of Azure publishes them. */
export const azuriteAccount = "devstoreaccount1";
export const azuriteKey =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export async function startAzurite(): Promise<Azurite> {
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}/${azuriteAccount}`;
  const main = fileURLToPath(import.meta.resolve("azurite/dist/src/blob/main.js"));
  const options = [
    "--blobHost",
    "127.0.0.1",
    "--blobPort",
    String(port),
    "--inMemoryPersistence",
    "--silent",
  ];
  const child = spawn(process.execPath, [main, ...options, "--skipApiVersionCheck", "--disableTelemetry"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (part: Buffer) => (said += part.toString()));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const isUp = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`Azurite ended with code ${child.exitCode}: ${said}`);
    const request = { method: "GET", url: new URL(endpoint), headers: {}, body: null } as const;
    return exchange(nodePlatform, request, 5000).then(
      () => true,
      () => false,
    );
  };
  await until("Azurite answers", isUp);
  return {
    port,
    endpoint,
    async makeContainer(name) {
      const url = new URL(`${endpoint}/${name}?restype=container`);
      const request = { method: "PUT", url, headers: { "x-ms-version": "2021-12-02" }, body: null } as const;
      const place = { account: azuriteAccount, now: serverAt };
      const { status } = await exchange(
        nodePlatform,
        signAzure(request, { accountKey: azuriteKey }, place),
        hangMs,
      );
      if (status !== 201) throw new Error(`Azurite made no container ${name}: status ${status}`);
    },
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
