/**
 * Files that a thread or a child process begins with. They lie in the folder of the file that starts them and have its
 * extension: sources run unbuilt as .ts, the package as .js.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * @param address of the file that asks; a bundler's CommonJS has none. @returns `missing`, the path, if the file is not
 * there because a bundler did not see that it is needed.
 */
export function entryFileBeside(
  address: string | undefined,
  name: string,
): { readonly file: URL; readonly missing?: undefined } | { readonly missing: string } {
  if (address === undefined) return { missing: `${name}.js` };
  const file = new URL(`./${name}${address.endsWith(".ts") ? ".ts" : ".js"}`, address);
  return existsSync(file) ? { file } : { missing: fileURLToPath(file) };
}
