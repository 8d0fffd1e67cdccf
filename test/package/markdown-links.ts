/**
 * The links of a Markdown page that lead to files beside it, and the headings that a link may name, as GitHub spells
 * them. Code is no link: blocks and spans of code are passed over.
 */
interface Link {
  /** Relative to the folder of the page; empty for the page itself. */
  readonly path: string;
  /** Without its #; empty for none. */
  readonly heading: string;
}

export function relativeLinks(page: string): Link[] {
  const links = withoutCode(page).matchAll(/\]\(([^)\s]+)\)/g);
  return [...links]
    .map(([, target]) => target as string)
    .filter((target) => !/^[a-z]+:/i.test(target))
    .map((target) => {
      const [path = "", heading = ""] = target.split("#");
      return { path, heading };
    });
}

export function headingsOf(page: string): string[] {
  const headings = page.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/^#+ (.*)$/gm);
  return [...headings].map(([, text]) =>
    (text as string)
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

function withoutCode(page: string): string {
  return page.replaceAll(/^```[\s\S]*?^```$/gm, "").replaceAll(/`[^`\n]*`/g, "code");
}
