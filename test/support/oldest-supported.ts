/** The oldest versions that Millrace supports, which the set-up has installed for the tests. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..", "..");

interface Supported {
  readonly version: string;
  readonly packages: Readonly<Record<string, { readonly name: string } | undefined>>;
}

const supported = JSON.parse(
  readFileSync(join(root, "scripts", "oldest-supported.json"), "utf8"),
) as Readonly<Record<"node" | "typescript", Supported>>;

export const oldestVersions = { node: supported.node.version, typescript: supported.typescript.version };

/** Null if there is none for this system. */
export const oldestNode: string | null = pathOf("node", "bin/node");

export const oldestTsc = pathOf("typescript", "bin/tsc") as string;

function pathOf(of: "node" | "typescript", file: string): string | null {
  const { packages } = supported[of];
  const found = packages["any"] ?? packages[`${process.platform}-${process.arch}`];
  return found === undefined ? null : join(root, "node_modules", ".oldest", "node_modules", found.name, file);
}

/** Fails with what to do if the set-up has not run since the versions were written. */
export function checkOldest(path: string): string {
  if (!existsSync(path)) throw new Error(`${path} is missing: \`npm run types\` installs it.`);
  return path;
}
