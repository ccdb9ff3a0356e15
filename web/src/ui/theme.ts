import { Store } from "../state/store.ts";

export type Theme = "system" | "light" | "dark";

const KEY = "antiphon.theme";

/** Light, dark, or the system setting. */
export const theme = new Store<Theme>(remembered());
apply(theme.value);
theme.subscribe((value) => {
  localStorage.setItem(KEY, value);
  apply(value);
});

function remembered(): Theme {
  const text = localStorage.getItem(KEY);
  return text === "light" || text === "dark" ? text : "system";
}

function apply(value: Theme): void {
  const root = document.documentElement;
  if (value === "system") root.removeAttribute("data-theme");
  else root.dataset["theme"] = value;
}
