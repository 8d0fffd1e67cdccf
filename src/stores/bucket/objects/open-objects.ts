/** From the URL of a bucket to its objects. The code of a provider is loaded when it is used, not before. */
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import type {
  AzureCredentials,
  BucketCredentials,
  GcsCredentials,
  S3Credentials,
} from "../../../store/objects.ts";
import type { BucketPlace } from "../bucket-url.ts";
import type { Objects } from "./objects.ts";
import { ownObjects } from "./own-objects.ts";

/** What `open` is given in `bucket` for the objects. */
export interface ObjectsOptions {
  readonly objects?: Objects;
  readonly endpoint?: string;
  readonly region?: string;
  readonly pathStyle?: boolean;
  readonly credentials?: () => Promise<BucketCredentials>;
  /** Only to look: a folder that is not there is not made. */
  readonly view?: boolean;
}

/** Which options an address can use; every other one is refused. */
const uses: Readonly<Record<BucketPlace["scheme"], readonly (keyof ObjectsOptions)[]>> = {
  file: [],
  bucket: ["objects"],
  s3: ["endpoint", "region", "pathStyle", "credentials"],
  gs: ["endpoint", "credentials"],
  az: ["endpoint", "credentials"],
};

export async function openObjects(
  { scheme, name, prefix, account }: BucketPlace,
  options: ObjectsOptions,
  platform: Platform,
): Promise<Objects> {
  const { objects, endpoint, region, pathStyle, credentials } = options;
  for (const key of ["objects", "endpoint", "region", "pathStyle", "credentials"] as const) {
    if (options[key] === undefined || uses[scheme].includes(key)) continue;
    throw new MillraceError("invalid-option", `open: bucket.${key} is not an option of a URL ${scheme}:.`);
  }
  switch (scheme) {
    case "file":
      return (await import("./files.ts")).openFiles(name, platform, { isMade: options.view !== true });
    case "s3": {
      const given = { endpoint, region, pathStyle, credentials: credentials as Asked<S3Credentials> };
      return (await import("./s3.ts")).openS3({ platform, bucket: name, prefix, ...given });
    }
    case "gs": {
      const given = { endpoint, credentials: credentials as Asked<GcsCredentials> };
      return (await import("./gcs.ts")).openGcs({ platform, bucket: name, prefix, ...given });
    }
    case "az": {
      const given = { endpoint, credentials: credentials as Asked<AzureCredentials> };
      const { openAzure } = await import("./azure.ts");
      return openAzure({ platform, container: name, prefix, account: account ?? undefined, ...given });
    }
    case "bucket": {
      if (objects !== undefined) return ownObjects(objects, prefix);
      const sentence = "A URL bucket: needs your own objects in the option bucket.objects.";
      throw new MillraceError("invalid-option", sentence);
    }
  }
}

type Asked<Credentials> = (() => Promise<Credentials>) | undefined;
