// What the compiler says of a mistake: where it is, and by which words. Users read these more often than any page.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** A mistake in one line, the text at which the error stands, and what it says. */
const mistakes: readonly (readonly [line: string, at: string, message: RegExp])[] = [
  ["handler(mail, () => ({ sent: 'no' }));", "sent:", /'string' is not assignable to type 'number'/],
  ["handler(mail, async () => ({ sent: 'no' }));", "({ sent", /'string' is not assignable to type 'number'/],
  ["handler(mail, ({ input }) => ({ sent: input.too.length }));", "too", /Property 'too' does not exist/],
  [
    "export default (async ({ input }) => ({ sent: input.to })) satisfies HandlerOf<typeof mail>;",
    "({ sent",
    /'string' is not assignable to type 'number'/,
  ],
  [
    "void ((({ input }) => ({ sent: input.too.length })) satisfies HandlerOf<typeof mail>);",
    "too",
    /Property 'too' does not exist/,
  ],
  ["fileHandler(mail, { file: 'x', size: '3' });", "size", /'string' is not assignable to type 'number/],
  [
    "fileHandler(mail, { file: 'x', runs: 'thread' });",
    "runs",
    /'runs' does not exist in type 'FileHandlerOptions'/,
  ],
  ["job<Mail>('a', { unique: { fields: ['tow'] } });", "'tow'", /not assignable to type .*"to"/],
  ["job('a', { input: schema, unique: { fields: ['tow'] } });", "'tow'", /not assignable to type .*"to"/],
  [
    "job<Mail>('a', { redact: ['card.nummber'] });",
    "'card.nummber'",
    /not assignable to type .*"card\.number"/,
  ],
  ["job('a', { input: schema, redact: ['tow'] });", "'tow'", /not assignable to type .*"to"/],
  ["job<Mail>('a', { delya: '10m' });", "delya", /'delya' does not exist .*Did you mean to write 'delay'/s],
  [
    "job('a', { input: schema, delya: '10m' });",
    "delya",
    /'delya' does not exist .*Did you mean to write 'delay'/s,
  ],
  [
    "job('a', { input: schema, durable: { version: 1 }, ttl: '1 day' });",
    "ttl",
    /"1 day".* not assignable to type 'Duration/,
  ],
  [
    "job<Mail>('a', { limits: [api.use({ key: (input) => input.tow })] });",
    "tow",
    /Property 'tow' does not exist/,
  ],
  [
    "job('a', { input: schema, limits: [{ limit: api, key: (input) => input.tow }] });",
    "tow",
    /Property 'tow' does not exist/,
  ],
  ["mill.enqueue(mail, given, { delay: '10min' });", "delay", /"10min".* not assignable to type 'Duration/],
  ["mill.enqueue(mail, given, { dealy: '10m' });", "dealy", /Did you mean to write 'delay'/],
  ["mill.enqueue(mail, { to: 1 });", "to:", /'number' is not assignable to type 'string'/],
  [
    "mill.schedule('s', mail, given, {});",
    "{}",
    /'{}' is not assignable to parameter of type 'ScheduleOptions/,
  ],
  ["mill.in(5);", "5", /'5'|'number' is not assignable to parameter of type 'CallersConnection'/],
  ["mill.in({ $queryRawUnsafe() {} });", "$query", /not (exist|assignable)/],
  [
    "handler(mail, ({ progress }) => (progress('half'), { sent: 1 }));",
    "'half'",
    /not assignable to parameter of type 'number'/,
  ],
];

const head = (index: string): readonly string[] => [
  `import { fileHandler, handler, job, limit, type HandlerOf, type Millrace } from ${JSON.stringify(index)};`,
  'import { z } from "zod";',
  "declare const mill: Millrace;",
  "interface Mail { to: string; card: { number: string } }",
  "const schema = z.object({ to: z.string() });",
  "const mail = job<Mail, { sent: number }>('mail');",
  "const given: Mail = { to: 'a', card: { number: '1' } };",
  "const api = limit('api', { perKey: { concurrency: 1 } });",
  "void [fileHandler, handler, mill, schema, mail, given, api];",
];

test("each mistake is named at its place", () => {
  // Beside the sources, so that zod is found; the folder's name is ignored by git.
  const folder = mkdtempSync(join(root, "node_modules", ".millrace-types-"));
  try {
    const before = head(`./${relative(folder, join(root, "src", "index.ts"))}`);
    writeFileSync(join(folder, "mistakes.ts"), [...before, ...mistakes.map(([line]) => line)].join("\n"));
    const compilerOptions = {
      noEmit: true,
      customConditions: ["millrace-source"],
      types: ["node"],
      typeRoots: [join(root, "node_modules", "@types")],
    };
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({
        extends: join(root, "tsconfig.json"),
        compilerOptions,
        files: ["mistakes.ts"],
        include: [],
      }),
    );
    const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
    const { stdout } = spawnSync(process.execPath, [tsc, "-p", folder, "--pretty", "false"], {
      encoding: "utf8",
    });
    const reported = stdout.split(/\n(?=\S)/).map((text) => {
      const [, line = "0", column = "0", message = text] =
        /mistakes\.ts\((\d+),(\d+)\): error (.*)/s.exec(text) ?? [];
      return { line: Number(line), column: Number(column), message };
    });
    const found = mistakes.map(([line, at, message], index) => {
      const number = before.length + 1 + index;
      const of = reported.filter((each) => each.line === number);
      const isThere = of.some(
        (each) => line.slice(each.column - 1).startsWith(at) && message.test(each.message),
      );
      return isThere ? "named" : `${line}\n${JSON.stringify(of)}`;
    });
    expect(found).toEqual(mistakes.map(() => "named"));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
