import { html, nothing, type TemplateResult } from "lit";
import { customElement, property, state } from "lit/decorators.js";
import { canProcessAudio } from "../audio/audio-context.ts";
import { type Devices, devices, listDevices, watchDevices } from "../audio/audio-settings.ts";
import { common } from "../i18n/common.ts";
import { StoreController } from "../state/store.ts";
import { BaseElement } from "../ui/base-element.ts";
import { type SelectOption, select, toggle } from "../ui/controls.ts";
import { icon } from "../ui/icon.ts";

type Role = "microphone" | "speaker" | "camera";

/**
 * Device selection, shared by all pages. Browsers return device names after permission is granted.
 *
 * @fires change - the kind of device, or "noiseSuppression"
 */
@customElement("an-device-select")
export class DeviceSelect extends BaseElement {
  readonly #chosen = new StoreController(this, devices);
  #unwatch: () => void = () => undefined;

  /** Include cameras. */
  @property({ type: Boolean }) camera = false;
  /** Hide noise suppression. */
  @property({ type: Boolean }) plain = false;
  @property({ type: Boolean }) disabled = false;

  @state() private listed: Devices | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    if (navigator.mediaDevices === undefined) return; // not a secure page: starting a call shows the error
    void this.look();
    this.#unwatch = watchDevices((listed) => {
      this.listed = listed;
    });
  }

  override disconnectedCallback(): void {
    this.#unwatch();
    super.disconnectedCallback();
  }

  /** Reloads the devices, for example after permission is granted. */
  async look(): Promise<void> {
    this.listed = await listDevices();
  }

  protected override render(): TemplateResult | typeof nothing {
    if (this.listed === null) return nothing;
    const { deviceCheck } = common();
    const { microphones, speakers, cameras } = this.listed;
    return html`<div class="stack">
      ${this.#choice("microphone", deviceCheck.microphone, microphones)}
      ${this.#choice("speaker", deviceCheck.speaker, speakers)}
      ${this.camera ? this.#choice("camera", deviceCheck.video, cameras) : nothing}
      ${this.plain ? nothing : this.#noise()}
    </div>`;
  }

  /** Hidden if there is nothing to select. */
  #choice(
    role: Role,
    label: string,
    listed: readonly MediaDeviceInfo[],
  ): TemplateResult | typeof nothing {
    const named = listed.filter((device) => device.label !== "");
    if (named.length === 0) return nothing;
    const { systemDefault, notConnected } = common().deviceCheck;
    const chosen = this.#chosen.value[role] ?? "";
    const options: SelectOption[] = [
      { value: "", label: systemDefault },
      ...named.map(({ deviceId, label }) => ({ value: deviceId, label })),
    ];
    if (!options.some(({ value }) => value === chosen)) {
      options.push({ value: chosen, label: notConnected });
    }
    return select({
      label,
      value: chosen,
      options,
      disabled: this.disabled,
      onChange: (id) => this.#use(role, { [role]: id === "" ? null : id }),
    });
  }

  #noise(): TemplateResult {
    return toggle({
      label: common().deviceCheck.noise,
      checked: this.#chosen.value.noiseSuppression,
      disabled: this.disabled,
      onChange: (noiseSuppression) => this.#use("noiseSuppression", { noiseSuppression }),
    });
  }

  #use(what: Role | "noiseSuppression", change: Parameters<typeof devices.update>[0]): void {
    devices.update(change);
    this.emit("change", what);
  }
}

/** The microphone was disconnected, or its permission was revoked. `more`: other buttons. */
export function microphoneLost(
  reopen: () => void,
  more: TemplateResult | typeof nothing = nothing,
): TemplateResult {
  const { deviceCheck } = common();
  return html`<div class="callout caution" role="status">
    ${icon("micOff")}
    <div class="grow">
      <p class="strong">${deviceCheck.lost}</p>
      <p class="soft">${deviceCheck.lostHint}</p>
      <button class="button small" @click=${reopen}>${icon("mic")} ${deviceCheck.reopen}</button>
      ${more}
    </div>
  </div>`;
}

export type Device = "microphone" | "camera";

/** Returns what the user can do if a device could not be opened. Accepts any thrown value. */
export function deviceErrorText(error: unknown, device: Device): string {
  const { deviceCheck } = common();
  if (!window.isSecureContext) return deviceCheck.secureBad;
  if (navigator.mediaDevices === undefined || !canProcessAudio()) return deviceCheck.outdated;
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError") {
    return device === "camera" ? deviceCheck.cameraBad : deviceCheck.permissionBad;
  }
  if (name === "NotFoundError" || name === "OverconstrainedError") {
    return device === "camera" ? deviceCheck.cameraMissing : deviceCheck.missing;
  }
  if (name === "TimeoutError") return deviceCheck.noOutput;
  return name === "NotReadableError" ? deviceCheck.inUse : String(error);
}
