/** Prices of a bucket as an option: `--prices put=5e-6,get=4e-7`; what is left out keeps its default. */
import { readPrices } from "../../stores/bucket/prices.ts";
import type { BucketPrices } from "../../stores/bucket/prices.ts";
import { list } from "../arguments/option-kinds.ts";
import type { Option } from "../arguments/option-kinds.ts";
import { quote, wrong } from "../arguments/wrong.ts";

const parts = list(
  "put=P,get=P,list=P,remove=P,gib=P",
  "of a bucket: what one request costs, and a GiB kept for a month; those of S3 by default",
);

export const pricesOption: Option<BucketPrices> = {
  ...parts,
  read(text, name, platform) {
    const given = parts.read(text, name, platform).map((part) => {
      const [, request = "", price = ""] = /^(\w+)=(\d+(?:\.\d+)?(?:e-?\d+)?)$/.exec(part) ?? [];
      if (request === "") throw wrong(`${name} must be such as put=5e-6,get=4e-7, not ${quote(part)}`);
      return [request, Number(price)] as const;
    });
    return readPrices(Object.fromEntries(given), name);
  },
};
