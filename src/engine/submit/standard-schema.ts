/**
 * The Standard Schema interface (version 1) as far as Millrace uses it: zod, valibot, arktype and others implement it,
 * and none of them is imported here.
 */
import { MillraceError } from "../../model/error.ts";
import type { ErrorCode } from "../../model/error.ts";

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Any schema, whatever it reads. */
export type AnySchema = StandardSchema<never, unknown> | StandardSchema;

type TypesOf<Schema extends AnySchema> = NonNullable<Schema["~standard"]["types"]>;
export type SchemaInput<Schema extends AnySchema> = TypesOf<Schema>["input"];
export type SchemaOutput<Schema extends AnySchema> = TypesOf<Schema>["output"];

export function isStandardSchema(value: unknown): value is StandardSchema {
  const isObject = (typeof value === "object" && value !== null) || typeof value === "function";
  return isObject && typeof (value as Partial<StandardSchema>)["~standard"]?.validate === "function";
}

const issuesShownMax = 5;

/** The value as the schema reads it; a promise only where the schema answers with one. */
export function checkSchema<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
  problem: { readonly code: ErrorCode; readonly what: string },
): Output | Promise<Output> {
  const answer = schema["~standard"].validate(value);
  // Any thenable counts: a library may answer with a promise of its own.
  return "then" in answer
    ? Promise.resolve(answer).then((result) => readResult(result, problem))
    : readResult(answer, problem);
}

function readResult<Output>(
  result: SchemaResult<Output>,
  problem: { readonly code: ErrorCode; readonly what: string },
): Output {
  if (result.issues === undefined) return result.value;
  const issues = result.issues.slice(0, issuesShownMax).map((issue) => {
    const path = (issue.path ?? [])
      .map((step) => String(typeof step === "object" ? step.key : step))
      .join(".");
    return path === "" ? issue.message : `${path}: ${issue.message}`;
  });
  throw new MillraceError(problem.code, `${problem.what} does not match its schema: ${issues.join("; ")}`);
}
