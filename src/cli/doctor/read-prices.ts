/** Prices of a bucket as an option: `--prices put=5e-6,get=4e-7`; what is left out keeps its default. */
import { readPrices } from "../../stores/bucket/prices.ts";
import type { BucketPrices } from "../../stores/bucket/prices.ts";
import { quote, readList, wrong } from "../arguments/read-args.ts";

export const pricesOption = {
  prices: {
    value: "put=P,get=P,list=P,remove=P,gib=P",
    meaning: "of a bucket: what one request costs, and a GiB kept for a month; those of S3 by default",
  },
} as const;

export function readPricesOption(options: ReadonlyMap<string, string>): BucketPrices {
  const given = (readList(options, "prices") ?? []).map((part) => {
    const [, name = "", price = ""] = /^(\w+)=(\d+(?:\.\d+)?(?:e-?\d+)?)$/.exec(part) ?? [];
    if (name === "") throw wrong(`--prices must be such as put=5e-6,get=4e-7, not ${quote(part)}`);
    return [name, Number(price)] as const;
  });
  return readPrices(Object.fromEntries(given), "--prices");
}
