/** The examples that AWS publishes for Signature Version 4 of S3, with their signatures. */
import { expect, test } from "vitest";
import { signS3 } from "./s3-signature.ts";

const credentials = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};
const place = { region: "us-east-1", now: Date.UTC(2013, 4, 24) };
const bucket = "https://examplebucket.s3.amazonaws.com";

const examples = [
  {
    title: "get an object",
    request: { method: "GET", url: `${bucket}/test.txt`, headers: { range: "bytes=0-9" }, body: null },
    signed: "host;range;x-amz-content-sha256;x-amz-date",
    signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  },
  {
    title: "put an object",
    request: {
      method: "PUT",
      url: `${bucket}/test%24file.text`,
      headers: { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
      body: new TextEncoder().encode("Welcome to Amazon S3."),
    },
    signed: "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
    signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  },
  {
    title: "a parameter without a value",
    request: { method: "GET", url: `${bucket}/?lifecycle`, headers: {}, body: null },
    signed: "host;x-amz-content-sha256;x-amz-date",
    signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  },
  {
    title: "list objects",
    request: { method: "GET", url: `${bucket}/?max-keys=2&prefix=J`, headers: {}, body: null },
    signed: "host;x-amz-content-sha256;x-amz-date",
    signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  },
] as const;

test.each(examples)("the signature that AWS publishes: $title", ({ request, signed, signature }) => {
  const { headers } = signS3({ ...request, url: new URL(request.url) }, credentials, place);
  const scope = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
  expect(headers["authorization"]).toBe(
    `AWS4-HMAC-SHA256 Credential=${scope},SignedHeaders=${signed},Signature=${signature}`,
  );
});
