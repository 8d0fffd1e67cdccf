/** Imports a user's file, and collects what it declares for a worker. */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { pickDeclared } from "../client/millrace-config.ts";
import type { Declared } from "../client/millrace-config.ts";
import { describeError } from "../model/job/attempt-log.ts";
import type { ErrorCode } from "../model/error.ts";
import { MillraceError } from "../model/error.ts";

export async function loadDeclared(file: string): Promise<Declared> {
  const exported = await importFile(file, "no-handlers");
  const declared = pickDeclared(exported);
  if (declared.handlers.length > 0) return declared;
  throw new MillraceError(
    "no-handlers",
    `${JSON.stringify(file)} exports no handler; export what handler(job, fn) or batchHandler(...) gives, alone or in an array.`,
  );
}

/** @param code of the error for a file that cannot be loaded. */
export async function importFile(file: string, code: ErrorCode): Promise<Readonly<Record<string, unknown>>> {
  try {
    return (await import(pathToFileURL(resolve(file)).href)) as Record<string, unknown>;
  } catch (cause) {
    const { name, message, code: reason } = describeError(cause);
    if (reason === "ERR_UNKNOWN_FILE_EXTENSION" && /\.[cm]?ts$/.test(file)) {
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
    throw new MillraceError(code, `${JSON.stringify(file)} cannot be loaded: ${name}: ${message}${advice}`, {
      cause,
    });
  }
}
