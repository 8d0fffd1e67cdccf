/**
 * Which account of Azure Blob, where it is and what to ask it with: from the options, else from the environment as
 * Azure's own command line reads it.
 */
import type { AzureCredentials } from "../../../store/objects.ts";
import type { AzureOptions } from "./azure.ts";
import { noCredentials } from "./credential-source.ts";
import { endpointUrl } from "./http-service.ts";
import { ObjectsError } from "./objects.ts";

export interface AzurePlace {
  readonly account: string;
  /** Its path ends with a slash. */
  readonly endpoint: URL;
  readonly credentials: () => Promise<AzureCredentials>;
}

/** What Azure's emulators have, as its documentation publishes it. */
const emulator = {
  AccountName: "devstoreaccount1",
  AccountKey: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
  BlobEndpoint: "http://127.0.0.1:10000/devstoreaccount1",
};

export function readAzurePlace({ platform, account, endpoint, credentials }: AzureOptions): AzurePlace {
  const env = (name: string): string | undefined => platform.readEnv(name);
  const whole = partsOf(env("AZURE_STORAGE_CONNECTION_STRING") ?? "");
  // A connection string of another account than the one that was named says nothing about it.
  const parts = account === undefined || account === whole.AccountName ? whole : {};
  const name =
    account ?? parts.AccountName ?? env("AZURE_STORAGE_ACCOUNT") ?? accountOf(endpoint ?? parts.BlobEndpoint);
  if (name === undefined) {
    const sentence =
      "the account of the container is not known: set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT, or write az://container/prefix?account=name";
    throw new ObjectsError("refused", sentence);
  }
  const { DefaultEndpointsProtocol: protocol = "https", EndpointSuffix: suffix = "core.windows.net" } = parts;
  const place = endpoint ?? parts.BlobEndpoint ?? `${protocol}://${name}.blob.${suffix}`;
  return {
    account: name,
    endpoint: endpointUrl(place),
    credentials:
      credentials ??
      (async () => {
        const accountKey = parts.AccountKey ?? env("AZURE_STORAGE_KEY");
        const sasToken = parts.SharedAccessSignature ?? env("AZURE_STORAGE_SAS_TOKEN");
        if (accountKey !== undefined) return { accountKey };
        if (sasToken !== undefined) return { sasToken };
        const variables = "AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN";
        throw noCredentials("Azure Blob", variables);
      }),
  };
}

/** `AccountName=jobs;AccountKey=...`; a value may have equals signs. */
function partsOf(text: string): Partial<Record<string, string>> {
  const parts = Object.fromEntries(
    text.split(";").flatMap((part) => {
      const at = part.indexOf("=");
      return at < 1 ? [] : [[part.slice(0, at).trim(), part.slice(at + 1).trim()] as const];
    }),
  );
  return parts["UseDevelopmentStorage"] === "true" ? { ...emulator, ...parts } : parts;
}

/** A connection string with a shared access signature names only the endpoint. */
function accountOf(endpoint: string | undefined): string | undefined {
  return /^https?:\/\/([a-z0-9]+)\.blob\./.exec(endpoint ?? "")?.[1];
}
