// Where the handlers lie.
export const handlerFile = (name: string): URL => new URL(`./${name}.ts`, import.meta.url);
