/** doctor and restore end to end on each provider, opened by its environment, against the servers of the tests. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { azuriteAccount, azuriteKey, startAzurite } from "../support/servers/azurite.ts";
import { openGcsServer } from "../support/servers/gcs-server.ts";
import { clientPlatform } from "../support/servers/http-server.ts";
import { openS3Server } from "../support/servers/s3-server.ts";
import type { S3Server } from "../support/servers/s3-server.ts";
import { aFolder, say } from "./run-millrace.ts";
import type { Ended } from "./run-millrace.ts";

type Variables = Readonly<Record<string, string>>;

const sayOn = (variables: Variables, ...args: string[]): Promise<Ended> =>
  say(args, variables, { platform: clientPlatform(variables) });

async function jsonOn(variables: Variables, ...args: string[]): Promise<Record<string, unknown>> {
  const { out, err } = await sayOn(variables, ...args, "--json");
  expect(err).toBe("");
  return JSON.parse(out) as Record<string, unknown>;
}

async function idsOn(variables: Variables, url: string): Promise<string[]> {
  const { jobs } = (await jsonOn(variables, "list", "--store", url)) as { jobs: { id: string }[] };
  return jobs.map(({ id }) => id).sort();
}

/**
 * Two jobs by two writers, then back to before the second one. What was dropped is a bucket of its own. @returns the
 * last report of doctor.
 */
async function tour(variables: Variables, url: string): Promise<Record<string, unknown>> {
  const store = ["--store", url];
  const enqueued = async (id: string): Promise<number> => {
    expect((await sayOn(variables, "enqueue", "a", "--id", id, "--take", ...store)).code).toBe(0);
    const { log } = (await jsonOn(variables, "restore", "--list", ...store)) as {
      log: { last: { record: number } };
    };
    return log.last.record;
  };
  const until = String(await enqueued("one"));
  await enqueued("two");
  const before = await jsonOn(variables, "doctor", ...store);
  expect(before).toMatchObject({ bucket: { isWhole: true, conditions: "kept" }, jobs: { ready: 2 } });
  const file = `sqlite:${join(aFolder(), "copy.db")}`;
  expect((await sayOn(variables, "restore", "--until", until, "--to", file, ...store)).code).toBe(0);
  expect(await idsOn(variables, file)).toEqual(["one"]);
  const { kept } = await jsonOn(variables, "restore", "--until", until, "--yes", ...store);
  expect(await idsOn(variables, url)).toEqual(["one"]);
  const [address, query] = url.split("?");
  const keptUrl = [`${address}/${String(kept)}`, ...(query === undefined ? [] : [query])].join("?");
  expect(await idsOn(variables, keptUrl)).toEqual(["one", "two"]);
  await enqueued("three");
  expect(await idsOn(variables, url)).toEqual(["one", "three"]);
  const after = await jsonOn(variables, "doctor", ...store);
  expect(after).toMatchObject({ bucket: { isWhole: true, kept: [kept] }, jobs: { ready: 2 } });
  return after;
}

const s3Variables = ({ url, accessKeyId, secretAccessKey }: S3Server): Variables => ({
  ...{ AWS_ENDPOINT_URL_S3: url, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
});

async function anS3(lifecycle?: string): Promise<S3Server> {
  const server = await openS3Server(lifecycle === undefined ? {} : { lifecycle });
  onTestFinished(() => server.close());
  return server;
}

const rule = (prefix: string): string =>
  `<Rule><ID>tidy</ID><Filter><Prefix>${prefix}</Prefix></Filter><Status>Enabled</Status><Expiration><Days>7</Days></Expiration></Rule>`;

test("S3: doctor and restore, and a bucket without rules has no finding", async () => {
  const variables = s3Variables(await anS3(""));
  expect(await tour(variables, "s3://jobs/prefix")).toMatchObject({ ok: true, findings: [] });
});

test("S3: rules that delete the log are a finding; those of another folder are none, and rules that cannot be read are a line to check by hand", async () => {
  for (const [lifecycle, found] of [
    [rule("prefix/log/"), /^FINDING +lifecycle: The lifecycle rule "tidy" \(under log\/\) deletes objects/m],
    [rule("mail/"), /^no findings$/m],
    [undefined, /check by hand that no lifecycle rule deletes objects of this store[^]*^no findings$/m],
  ] as const) {
    const variables = s3Variables(await anS3(lifecycle));
    expect((await sayOn(variables, "migrate", "--store", "s3://jobs/prefix")).code).toBe(0);
    const { code, out } = await sayOn(variables, "doctor", "--store", "s3://jobs/prefix");
    expect(out).toMatch(found);
    expect(code).toBe(/FINDING/.test(out) ? 1 : 0);
  }
});

test("Google Cloud Storage: doctor and restore at an endpoint of the environment, and a rule is a finding", async () => {
  const lifecycle = [{ action: { type: "Delete" }, condition: { age: 30, matchesPrefix: ["prefix/"] } }];
  const server = await openGcsServer({ isOpen: true, lifecycle });
  onTestFinished(() => server.close());
  const after = await tour({ STORAGE_EMULATOR_HOST: server.url }, "gs://jobs/prefix");
  expect(after).toMatchObject({ ok: false, findings: [{ check: "lifecycle" }] });
});

test("Azure: doctor and restore by a connection string, with nothing said of rules", async () => {
  const azurite = await startAzurite();
  onTestFinished(() => azurite.stop());
  await azurite.makeContainer("jobs");
  const connection = `DefaultEndpointsProtocol=http;AccountName=${azuriteAccount};AccountKey=${azuriteKey};BlobEndpoint=${azurite.endpoint};`;
  const variables = { AZURE_STORAGE_CONNECTION_STRING: connection };
  const after = await tour(variables, "az://jobs/prefix");
  expect(after).toMatchObject({ ok: true, findings: [], bucket: { deletionRules: null, saysRules: false } });
});

test("denied credentials, a bucket that is not there and a service that does not answer are one line each", async () => {
  const server = await anS3();
  const good = s3Variables(server);
  const lines = {
    "store-denied": [{ ...good, AWS_SECRET_ACCESS_KEY: "wrong" }, "s3://jobs"],
    "store-missing": [good, "s3://others"],
    "unknown-store": [good, "s3://jobs?region=eu"],
  } as const;
  for (const [code, [variables, url]] of Object.entries(lines))
    for (const command of [["list"], ["doctor"], ["restore", "--until", "1", "--yes"], ["migrate"]]) {
      const { err } = await sayOn(variables, ...command, "--store", url);
      expect(err.split("\n")[0], command.join(" ")).toMatch(new RegExp(`^millrace: ${code}: `));
      expect(err).not.toMatch(/^ +at /m);
    }
  const path = join(aFolder(), "key.json");
  writeFileSync(path, "{");
  const { err } = await sayOn({ GOOGLE_APPLICATION_CREDENTIALS: path }, "list", "--store", "gs://jobs");
  expect(err).toMatch(/^millrace: store-denied: [^\n]*\n$/);
});
