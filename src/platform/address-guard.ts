/**
 * Which addresses a request that other people asked for may connect to. Only addresses of the public internet pass: a
 * name that leads to this machine, to its network or to a cloud's metadata service is refused, whatever it is called
 * and however the address is written. What an operator allows comes first.
 */
import { BlockList, isIP } from "node:net";

/** IPv4 that is no public host: IANA's special-purpose registry, multicast and what is reserved. */
const specialV4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.31.196.0", 24],
  ["192.52.193.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["192.175.48.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const;

/** Of IPv6 only 2000::/3 is public at all; these parts of it are special, or carry an IPv4 address inside. */
const specialV6 = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["2620:4f:8000::", 48],
  ["3fff::", 20],
] as const;

const special = new BlockList();
for (const [net, prefix] of specialV4) special.addSubnet(net, prefix, "ipv4");
for (const [net, prefix] of specialV6) special.addSubnet(net, prefix, "ipv6");
const publicV6 = new BlockList();
publicV6.addSubnet("2000::", 3, "ipv6");

/**
 * @param allowed true for all addresses, or networks such as "10.1.0.0/16".
 * @returns whether an address may be connected to. A text that is no address may not.
 */
export function addressGuard(allowed: boolean | readonly string[]): (address: string) => boolean {
  if (allowed === true) return (address) => isIP(address) !== 0;
  const networks = allowed === false ? null : readNetworks(allowed);
  return (address) => {
    const family = isIP(address);
    if (family === 0) return false;
    const kind = family === 4 ? "ipv4" : "ipv6";
    if (networks?.check(address, kind) === true) return true;
    if (special.check(address, kind)) return false;
    return family === 4 || publicV6.check(address, "ipv6");
  };
}

/** Null for a text that names no network. */
export function readNetwork(text: string): { net: string; prefix: number; family: "ipv4" | "ipv6" } | null {
  const [net = "", length, ...rest] = text.split("/");
  const version = isIP(net);
  const bits = version === 4 ? 32 : 128;
  const prefix = length === undefined ? bits : Number(length);
  const isPrefix = (length === undefined || /^\d{1,3}$/.test(length)) && prefix <= bits;
  if (version === 0 || rest.length > 0 || !isPrefix) return null;
  return { net, prefix, family: version === 4 ? "ipv4" : "ipv6" };
}

function readNetworks(texts: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of texts) {
    const found = readNetwork(text);
    if (found !== null) list.addSubnet(found.net, found.prefix, found.family);
  }
  return list;
}
