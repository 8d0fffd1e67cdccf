import { describe, expect, test } from "vitest";
import { dutyNames, readDutyOptions, shownTuning } from "./duty-tuning.ts";

describe("the tuning of duties", () => {
  const variable = "webhooks=off, retention.sleep=5m,retention.batch=200, metrics=on";

  test("is as the variable says, each setting by itself, if the options do not say it", () => {
    const tuning = readDutyOptions({ retention: { batch: 7 }, webhooks: true }, variable);
    expect(tuning.retention).toMatchObject({ isOn: true, batchMax: 7, sleepMaxMs: 300_000 });
    expect(tuning.webhooks).toMatchObject({ isOn: true, batchMax: 200 });
    expect(readDutyOptions(undefined, variable).webhooks.isOn).toBe(false);
    expect(readDutyOptions(undefined, variable).promote).toBe(readDutyOptions(undefined).promote);
    for (const tuned of [readDutyOptions(undefined, "off"), readDutyOptions(false, variable)])
      expect(dutyNames.filter((name) => tuned[name].isOn)).toEqual([]);
  });

  const wrong: [variable: string, code: string, sentence: RegExp][] = [
    [
      "retntion=off",
      "invalid-option",
      /MILLRACE_DUTIES: unknown option "retntion" \(did you mean "retention"\?\)/,
    ],
    ["retention", "invalid-option", /unknown option|must be on or off/],
    ["retention=fast", "invalid-option", /MILLRACE_DUTIES: retention must be on or off/],
    ["retention.batch=many", "invalid-option", /batch must be a whole number from 1 to 1000/],
    ["retention.nap=5m", "invalid-option", /unknown option "nap"/],
    ["retention.sleep=soon", "invalid-duration", /MILLRACE_DUTIES: retention\.sleep/],
    ["retention.sleep=1ms", "invalid-duration", /at least 10 ms/],
  ];

  test.each(wrong)("of the variable %j is refused", (given, code, sentence) => {
    expect(() => readDutyOptions(undefined, given)).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(sentence) }),
    );
  });

  test("is shown with what is not as it comes", () => {
    expect(shownTuning(readDutyOptions(undefined))).toMatchObject({
      changed: [],
      promote: "250 per pass, asleep up to 1.5s",
    });
    expect(shownTuning(readDutyOptions(undefined, variable))).toMatchObject({
      changed: ["webhooks", "retention"],
      webhooks: "off",
      retention: "200 per pass, asleep up to 5m",
    });
  });
});
