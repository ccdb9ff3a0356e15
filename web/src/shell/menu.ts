import { type AppEntry, apps } from "../api/catalog.ts";
import { common } from "../i18n/common.ts";
import { Store } from "../state/store.ts";
import type { IconName } from "../ui/icon.ts";

/** The enabled pages. All pages until it is known, so that nothing moves when it is. */
export const menu = new Store<readonly AppEntry[]>([
  { app_id: "turnbased", name: "", route: "/turnbased" },
  { app_id: "half_duplex_audio", name: "", route: "/half_duplex" },
  { app_id: "omni", name: "", route: "/omni" },
  { app_id: "audio_duplex", name: "", route: "/audio_duplex" },
]);

const ICONS: Record<string, IconName> = {
  turnbased: "chat",
  half_duplex_audio: "turns",
  omni: "camera",
  audio_duplex: "phone",
};

/** The path of this page. */
export const address = new Store(location.pathname);

/** Changes the path without loading a page. */
export function moveTo(path: string): void {
  history.replaceState(null, "", path);
  address.set(path);
}

/** Loads the enabled pages. Rejects with ApiError. */
export async function loadMenu(): Promise<void> {
  menu.set(await apps());
}

/** Returns the translated name of a page, or the server's name. */
export function pageName(app: AppEntry): string {
  const names: Readonly<Record<string, string>> = common().apps;
  return names[app.app_id] ?? app.name;
}

export function pageIcon(app: AppEntry): IconName {
  return ICONS[app.app_id] ?? "voice";
}

/** The address of another page with the preset of this one. Its presets may have the same id. */
export function withPreset(route: string, preset: string | null): string {
  return preset === null ? route : `${route}?preset=${encodeURIComponent(preset)}`;
}
