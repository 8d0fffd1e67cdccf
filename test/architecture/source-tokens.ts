// Turns TypeScript source into tokens, and tokens into the modules that a file names. Comments, strings, templates and regular expressions
// are the scanner's business, so that the word "import" in one of them is never taken for an import.
import { SyntaxKind } from "typescript/unstable/ast";
import { createScanner } from "typescript/unstable/ast/scanner";

export type Token = { kind: SyntaxKind; text: string; value: string; line: number };
/** `specifier` is null for a dynamic import of something computed. */
export type ImportedModule = { specifier: string | null; names: string[]; line: number };

/** After these a slash divides; after anything else it opens a regular expression. */
const OPERAND_ENDS = new Set([
  SyntaxKind.Identifier,
  SyntaxKind.NumericLiteral,
  SyntaxKind.BigIntLiteral,
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateTail,
  SyntaxKind.RegularExpressionLiteral,
  SyntaxKind.CloseParenToken,
  SyntaxKind.CloseBracketToken,
  SyntaxKind.CloseBraceToken,
  SyntaxKind.ThisKeyword,
  SyntaxKind.SuperKeyword,
  SyntaxKind.TrueKeyword,
  SyntaxKind.FalseKeyword,
  SyntaxKind.NullKeyword,
]);

export function tokensOf(source: string): Token[] {
  const scanner = createScanner(/* skipTrivia */ true);
  scanner.setText(source);
  const tokens: Token[] = [];
  // For each open brace, whether it opened a template's ${ }: its closing brace then continues the template.
  const braces: boolean[] = [];
  let line = 1;
  let counted = 0;
  for (let kind = scanner.scan(); kind !== SyntaxKind.EndOfFile; kind = scanner.scan()) {
    const before = tokens.at(-1)?.kind;
    const slash = kind === SyntaxKind.SlashToken || kind === SyntaxKind.SlashEqualsToken;
    if (slash && (before === undefined || !OPERAND_ENDS.has(before))) kind = scanner.reScanSlashToken();
    if (kind === SyntaxKind.OpenBraceToken) braces.push(false);
    if (kind === SyntaxKind.TemplateHead) braces.push(true);
    if (kind === SyntaxKind.CloseBraceToken && braces.pop()) {
      kind = scanner.reScanTemplateToken(/* isTaggedTemplate */ false);
      if (kind === SyntaxKind.TemplateMiddle) braces.push(true);
    }
    for (; counted < scanner.getTokenStart(); counted++) if (source[counted] === "\n") line++;
    tokens.push({ kind, text: scanner.getTokenText(), value: scanner.getTokenValue(), line });
  }
  return tokens;
}

/** Every module named by `import`, `export ... from`, `import type`, `import("...")` and `new URL("...", import.meta.url)`. */
export function importedModules(tokens: Token[]): ImportedModule[] {
  const found: ImportedModule[] = [];
  for (const [at, token] of tokens.entries()) {
    if (isMember(tokens, at)) continue;
    if (token.kind === SyntaxKind.ImportKeyword) {
      const next = tokens[at + 1];
      if (next?.kind === SyntaxKind.OpenParenToken) found.push(dynamicImport(tokens, at));
      else if (next?.kind !== SyntaxKind.DotToken) found.push(...statementFrom(tokens, at));
    }
    if (token.kind === SyntaxKind.ExportKeyword) found.push(...reExport(tokens, at));
    if (
      token.text === "URL" &&
      tokens[at + 2]?.kind === SyntaxKind.StringLiteral &&
      isImportMeta(tokens, at + 4)
    ) {
      found.push({ specifier: tokens[at + 2]?.value ?? null, names: [], line: token.line });
    }
  }
  return found;
}

function isMember(tokens: Token[], at: number): boolean {
  const before = tokens[at - 1]?.kind;
  return before === SyntaxKind.DotToken || before === SyntaxKind.QuestionDotToken;
}

function isImportMeta(tokens: Token[], at: number): boolean {
  return tokens[at]?.kind === SyntaxKind.ImportKeyword && tokens[at + 2]?.text === "meta";
}

function dynamicImport(tokens: Token[], at: number): ImportedModule {
  const argument = tokens[at + 2];
  const literal =
    argument?.kind === SyntaxKind.StringLiteral ||
    argument?.kind === SyntaxKind.NoSubstitutionTemplateLiteral;
  const after = tokens[at + 3]?.kind;
  const alone = after === SyntaxKind.CloseParenToken || after === SyntaxKind.CommaToken;
  return { specifier: literal && alone ? argument.value : null, names: [], line: tokens[at]?.line ?? 0 };
}

/** `export { a } from`, `export * from`, `export type { A } from`; any other export names no module. */
function reExport(tokens: Token[], at: number): ImportedModule[] {
  const first = tokens[at + 1]?.text === "type" ? tokens[at + 2] : tokens[at + 1];
  const lists = first?.kind === SyntaxKind.OpenBraceToken || first?.kind === SyntaxKind.AsteriskToken;
  return lists ? statementFrom(tokens, at) : [];
}

/** Reads on to the statement's string; the clause before it holds only names, braces, commas and a star. */
function statementFrom(tokens: Token[], at: number): ImportedModule[] {
  const names: string[] = [];
  for (let next = at + 1; next < tokens.length; next++) {
    const token = tokens[next];
    if (token === undefined || token.text === ";") return [];
    if (token.kind === SyntaxKind.StringLiteral) return [{ specifier: token.value, names, line: token.line }];
    if (token.kind === SyntaxKind.CloseBraceToken && tokens[next + 1]?.text !== "from") return [];
    if (/^[\p{ID_Start}$_]/u.test(token.text)) names.push(token.text);
  }
  return [];
}
