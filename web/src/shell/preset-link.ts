/** The address of another page with the preset of this one. Its presets may have the same id. */
export function withPreset(route: string, preset: string | null): string {
  return preset === null ? route : `${route}?preset=${encodeURIComponent(preset)}`;
}

interface PresetSettings {
  readonly value: { readonly preset: string | null };
  update(change: { preset: string; wording: null }): void;
}

/** Selects the preset of the page's address, if it has one. */
export function adoptPreset(settings: PresetSettings): void {
  const preset = new URLSearchParams(location.search).get("preset");
  if (preset === null) return;
  history.replaceState(null, "", location.pathname);
  if (preset !== settings.value.preset) settings.update({ preset, wording: null });
}
