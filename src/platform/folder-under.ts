/** Folders that must lie under another one, whatever links and `..` say. */
import { realpath } from "node:fs/promises";
import { resolve, sep } from "node:path";

/** The real path of a folder under `root`, itself included; null if it is not there or lies elsewhere. */
export async function folderUnder(root: string, path: string): Promise<string | null> {
  try {
    const top = await realpath(root);
    const found = await realpath(resolve(top, path));
    return found === top || found.startsWith(top.endsWith(sep) ? top : top + sep) ? found : null;
  } catch {
    return null;
  }
}
