// Types from a schema: zod here, any Standard Schema library works. The producer's input, the handler's input and the
// result are typed from one definition, and what does not match is refused before anything is written.
import { handler, isMillraceError, job, Millrace } from "millrace";
import { z } from "zod";

const resize = job("resize", {
  input: z.object({
    url: z.url(),
    width: z.number().int().max(4096),
    format: z.enum(["png", "webp"]).default("webp"),
  }),
  result: z.object({ bytes: z.number() }),
  queue: "images",
});

const mill = await Millrace.open("sqlite::memory:");
await mill.work([
  // `format` is there although the producer left it out: the handler gets what the schema makes of the input.
  handler(resize, async ({ input }) => {
    console.log(`resizing ${input.url} to ${input.width} px as ${input.format}`);
    return { bytes: input.width * 120 };
  }),
]);

const handle = await mill.enqueue(resize, { url: "https://example.com/cat.png", width: 640 });
const { bytes } = await handle.result({ timeout: "5s" });
console.log(`done: ${bytes} bytes`);

try {
  await mill.enqueue(resize, { url: "not a url", width: 640 });
} catch (error) {
  if (!isMillraceError(error, "invalid-input")) throw error;
  console.log(`refused: ${error.code}`);
}
console.log("jobs in the store:", (await mill.jobs.list()).jobs.length);
await mill.close();
