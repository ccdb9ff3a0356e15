import type { TemplateResult } from "lit";
import { common } from "../i18n/common.ts";
import { segmented } from "../ui/controls.ts";

/** The length penalty of each length of answers. */
const PENALTIES = { short: 0.8, medium: 1.1, long: 1.4 };
type Length = keyof typeof PENALTIES;

interface Values {
  readonly lengthPenalty: number;
}

/** Selects how long answers are. None is selected if the length penalty is another one. */
export function answerLength(
  { lengthPenalty }: Values,
  onChange: (change: Values) => void,
  disabled = false,
): TemplateResult {
  const t = common().settings;
  const lengths = Object.keys(PENALTIES) as Length[];
  return segmented<Length | "">({
    name: "length",
    label: t.length,
    value: lengths.find((one) => PENALTIES[one] === lengthPenalty) ?? "",
    options: lengths.map((value) => ({ value, label: t.lengths[value] })),
    disabled,
    onChange: (one) => one && onChange({ lengthPenalty: PENALTIES[one] }),
  });
}
