import { expect, test } from "vitest";
import { bucketUrlIn, isBucketUrl, readBucketUrl } from "./bucket-url.ts";

test("each kind of URL names a bucket and a prefix", () => {
  const read = (url: string) => {
    const { scheme, name, prefix, account } = readBucketUrl(url);
    return [scheme, name, prefix, account];
  };
  expect(read("s3://jobs")).toEqual(["s3", "jobs", "", null]);
  expect(read("S3://jobs/")).toEqual(["s3", "jobs", "", null]);
  expect(read("gs://my.jobs/a/b/")).toEqual(["gs", "my.jobs", "a/b/", null]);
  expect(read("az://jobs/a?account=mine")).toEqual(["az", "jobs", "a/", "mine"]);
  expect(read("file:///var/lib/my%20jobs")).toEqual(["file", "/var/lib/my jobs", "", null]);
  expect(read("bucket:")).toEqual(["bucket", "", "", null]);
  expect(read("bucket:a/b")).toEqual(["bucket", "", "a/b/", null]);
  for (const url of ["s3://a", "gs://a", "az://a", "file:///a", "bucket:"])
    expect(isBucketUrl(url)).toBe(true);
  for (const url of ["sqlite:a", "redis://a", "s3a://b"]) expect(isBucketUrl(url)).toBe(false);
});

test("a namespace is a folder under the prefix", () => {
  expect(bucketUrlIn("s3://jobs", "n")).toBe("s3://jobs/n");
  expect(bucketUrlIn("s3://jobs/a/", "n")).toBe("s3://jobs/a/n");
  expect(bucketUrlIn("az://jobs/a?account=mine", "n")).toBe("az://jobs/a/n?account=mine");
  expect(bucketUrlIn("file:///var/jobs", "n")).toBe("file:///var/jobs/n");
  expect(readBucketUrl(bucketUrlIn("bucket:", "n")).prefix).toBe("n/");
  expect(readBucketUrl(bucketUrlIn("bucket:a", "n")).prefix).toBe("a/n/");
});

test("what is no such URL is refused, and no password is shown", () => {
  const wrong = [
    "s3:jobs",
    "s3:///a",
    "s3://jobs?x=1",
    "az://jobs?key=secret",
    "file://a/b",
    "file:///",
    "bucket://a",
  ];
  for (const url of [...wrong, "s3://key:secret@jobs/a", "s3://jobs:80/a", "gs://jobs/a#b"])
    expect(() => readBucketUrl(url), url).toThrow(
      expect.objectContaining({
        code: "unknown-store",
        message: expect.not.stringContaining("secret") as string,
      }),
    );
});
