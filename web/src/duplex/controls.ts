import { html, nothing, type TemplateResult } from "lit";
import { ifDefined } from "lit/directives/if-defined.js";
import { segmented, toggle } from "../ui/controls.ts";
import { type IconName, icon } from "../ui/icon.ts";
import { type KeyVerb, keyName } from "./keys.ts";
import type { CallView } from "./view.ts";
import { words } from "./words.ts";
import "./controls.css";

interface Dial {
  readonly sign: IconName;
  readonly label: string;
  readonly hint?: string;
  readonly tone?: "end" | "go";
  readonly pressed?: boolean;
  readonly disabled?: boolean;
  readonly key?: KeyVerb;
  readonly run: () => void;
}

/** While a call goes on, or is about to. */
export function controls(view: CallView): TemplateResult {
  const running = view.state.talk.phase === "active";
  const paused = view.state.talk.phase === "paused";
  return html`<div class="dials" role="group" aria-label=${words().verbs}>
    ${running || paused ? [...sightDials(view), ...soundDials(view)].map(dial) : nothing}
    ${dial(endDial(view))}
  </div>`;
}

function soundDials({ state: { talk }, verbs }: CallView): Dial[] {
  const say = words();
  const paused = talk.phase === "paused";
  return [
    {
      sign: talk.muted ? "micOff" : "mic",
      label: say.mute,
      pressed: talk.muted,
      key: "mute",
      run: verbs.mute,
    },
    {
      sign: "hand",
      label: say.listen,
      hint: say.listenHint,
      disabled: paused,
      key: "listen",
      run: verbs.hush,
    },
    {
      sign: paused ? "play" : "pause",
      label: paused ? say.resume : say.pause,
      ...(paused ? { tone: "go" as const } : {}),
      key: "pause",
      run: verbs.pause,
    },
  ];
}

/** Only where the picture is the camera's. */
function sightDials({ call, state, verbs }: CallView): Dial[] {
  const say = words();
  if (call.kind === "audio" || state.file?.hasPicture) return [];
  const on = call.camera.state.value.stream !== null;
  const all: Dial[] = [
    {
      sign: on ? "camera" : "cameraOff",
      label: say.camera,
      hint: say.cameraHint,
      pressed: !on,
      key: "camera",
      run: verbs.camera,
    },
  ];
  return on ? [...all, { sign: "flip", label: say.flip, run: verbs.flip }] : all;
}

function endDial({ state, verbs }: CallView): Dial {
  const disabled = state.talk.phase === "stopping";
  return {
    sign: "phone",
    label: words().end,
    tone: "end",
    key: "end",
    disabled,
    run: verbs.hangUp,
  };
}

function dial({ sign, label, hint, tone, pressed, disabled, key, run }: Dial): TemplateResult {
  return html`<button
    class="dial ${tone ?? ""}"
    title=${ifDefined(hint)}
    aria-pressed=${ifDefined(pressed)}
    aria-keyshortcuts=${ifDefined(key && keyName(key))}
    ?disabled=${disabled ?? false}
    @click=${run}
  >
    <span class="face">${icon(sign)}</span><span class="name">${label}</span>
  </button>`;
}

/** Before the first call, and between two. */
export function startArea(view: CallView): TemplateResult {
  const say = words();
  const { source, file, state, verbs } = view;
  const again = state.since !== null;
  const label = source === "file" ? say.startFile : again ? say.again : say.start;
  return html`<div class="start">
    <button
      class="button primary large"
      ?disabled=${source === "file" && file === null}
      @click=${verbs.start}
    >
      ${icon(source === "file" ? "play" : "phone")} ${label}
    </button>
    ${sourceChoice(view)}
  </div>`;
}

function sourceChoice({ call, state, source, file, verbs }: CallView): TemplateResult {
  const say = words();
  return html`${segmented({
    name: "source",
    label: say.source,
    value: source,
    options: [
      { value: "microphone", label: say.microphone, icon: "mic" },
      { value: "file", label: say.file, icon: "file" },
    ],
    onChange: verbs.hear,
  })}
  ${
    source === "file"
      ? html`<div class="file">
          ${filePicker(call.kind, file, verbs.choose)}
          ${toggle({ label: say.hearFile, checked: state.monitored, onChange: verbs.monitor })}
        </div>`
      : html`<div class="row tight">
          <button class="button quiet small" @click=${verbs.check}>${say.check}</button>
          ${call.kind === "omni" ? previewButton(call.camera.state.value.stream !== null, verbs.camera) : nothing}
        </div>`
  }`;
}

function previewButton(shown: boolean, toggle: () => void): TemplateResult {
  const say = words();
  return html`<button class="button quiet small" @click=${toggle}>
    ${shown ? say.hidePicture : say.showPicture}
  </button>`;
}

function filePicker(
  kind: "audio" | "omni",
  file: File | null,
  onChoose: (file: File) => void,
): TemplateResult {
  const say = words();
  return html`<div class="row still">
      <label class="button" for="call-file">${icon("upload")} ${file ? say.otherFile : say.chooseFile}</label>
      ${file ? html`<span class="small truncate">${file.name}</span>` : nothing}
    </div>
    <input
      id="call-file"
      class="visually-hidden"
      type="file"
      accept="audio/*,video/*"
      @change=${({ target }: Event) => {
        const chosen = (target as HTMLInputElement).files?.[0];
        if (chosen) onChoose(chosen);
      }}
    />
    <p class="tiny soft">${say.fileHint[kind]}</p>`;
}
