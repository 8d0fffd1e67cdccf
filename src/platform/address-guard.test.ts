import { describe, expect, test } from "vitest";
import { addressGuard, readNetwork } from "./address-guard.ts";

const refused = [
  ...["0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "127.0.0.1"],
  ...["127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1"],
  ...["192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.7"],
  ...["224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"],
  ...["::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:7f00:1"],
  ...["64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:a00:1::", "3fff::1"],
  ...["5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1"],
  ...["", "localhost", "127.1", "0x7f000001", "2130706433", "127.0.0.1.", "1.2.3.4/8", "fe80::1%eth0"],
];
const passed = [
  ...["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.1.1.1"],
  ...[
    "169.253.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.167.1.1",
    "198.17.0.1",
    "198.20.0.1",
    "223.255.255.255",
  ],
  ...["2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2620:fe::fe"],
];

describe("addresses that requests of other people may connect to", () => {
  test.each(refused)("%s is none of the public internet", (address) => {
    expect(addressGuard(false)(address)).toBe(false);
  });

  test.each(passed)("%s is one", (address) => {
    expect(addressGuard(false)(address)).toBe(true);
  });

  test("networks that an operator allows pass, and no others", () => {
    const guard = addressGuard(["10.1.0.0/16", "::1", "fd00::/8"]);
    expect(["10.1.2.3", "::1", "fd00::5", "8.8.8.8"].map(guard)).toEqual([true, true, true, true]);
    expect(["10.2.0.1", "127.0.0.1", "fc00::1", "fe80::1"].map(guard)).toEqual([false, false, false, false]);
    expect(["127.0.0.1", "fe80::1", "localhost"].map(addressGuard(true))).toEqual([true, true, false]);
  });

  test("what names no network is refused by name", () => {
    const wrong = [
      "",
      "10.0.0.0/33",
      "10.0.0/8",
      "x/8",
      "10.0.0.0/8/8",
      "::/129",
      "10.0.0.0/",
      "10.0.0.0/-1",
    ];
    for (const text of wrong) expect(readNetwork(text), text).toBeNull();
    expect(readNetwork("10.0.0.0/8")).toEqual({ net: "10.0.0.0", prefix: 8, family: "ipv4" });
    expect(readNetwork("::1")).toEqual({ net: "::1", prefix: 128, family: "ipv6" });
  });
});
