/** The payload of the measured jobs: about 200 bytes as JSON, of the kind that applications really send. */

export interface BenchInput {
  readonly orderId: number;
  readonly customer: { readonly id: string; readonly mail: string };
  readonly items: readonly string[];
  readonly note: string;
}

export function makeInput(number: number): BenchInput {
  return {
    orderId: number,
    customer: { id: `c-${100_000 + (number % 900_000)}`, mail: `customer${number % 1000}@example.com` },
    items: ["blue kettle, 1.7 l", "oak board, large", "tea towel"],
    note: "leave at the back door, ring twice, gate code 4711",
  };
}

/** The number of a job, from its input as a system hands it to the handler: decoded, or the text itself. */
export function numberOf(input: unknown): number {
  return (typeof input === "string" ? (JSON.parse(input) as BenchInput) : (input as BenchInput)).orderId;
}

export function makeInputs(count: number): BenchInput[] {
  return Array.from({ length: count }, (_, index) => makeInput(index));
}
