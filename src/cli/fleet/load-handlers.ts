/**
 * Imports the user's jobs file and collects every handler in it, from any export, alone or in arrays. A handler is
 * known by its shape, not by its class, because the file may import another copy of Millrace than this one.
 */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Handler } from "../../index.ts";
import { describeError } from "../../model/job/attempt-log.ts";
import { MillraceError } from "../../model/error.ts";

const nestingMax = 4;

export async function loadHandlers(file: string): Promise<readonly Handler[]> {
  const exported = await importFile(file);
  const handlers = new Set<Handler>();
  for (const value of Object.values(exported).flat(nestingMax)) if (isHandler(value)) handlers.add(value);
  if (handlers.size > 0) return [...handlers];
  throw new MillraceError(
    "no-handlers",
    `${JSON.stringify(file)} exports no handler; export what handler(job, fn) or batchHandler(...) gives, alone or in an array.`,
  );
}

function isHandler(value: unknown): value is Handler {
  if (typeof value !== "object" || value === null) return false;
  const { kind, definition, handle } = value as Partial<Handler>;
  const isKind = kind === "single" || kind === "batch";
  return isKind && typeof handle === "function" && typeof definition === "object" && definition !== null;
}

async function importFile(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return (await import(pathToFileURL(resolve(file)).href)) as Record<string, unknown>;
  } catch (cause) {
    const { name, message, code } = describeError(cause);
    if (code === "ERR_UNKNOWN_FILE_EXTENSION" && /\.[cm]?ts$/.test(file)) {
      throw new MillraceError(
        "unsupported-node",
        `This Node.js does not run ${JSON.stringify(file)}: TypeScript files need 22.18 or newer with type stripping on. Upgrade Node.js, or name the built .js file.`,
        { cause },
      );
    }
    const isTakenForCommonJs = name === "SyntaxError" && /outside a module|token 'export'/.test(message);
    const advice = isTakenForCommonJs
      ? '. Set "type": "module" in the package.json above it, or end its name in .mts.'
      : "";
    throw new MillraceError(
      "no-handlers",
      `${JSON.stringify(file)} cannot be loaded: ${name}: ${message}${advice}`,
      { cause },
    );
  }
}
