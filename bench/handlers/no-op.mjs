// A handler that does nothing, for every system that runs handlers out of files.
export default async () => {};
