import { html, type SVGTemplateResult, svg, type TemplateResult } from "lit";

/** Drawn on a 24 grid with strokes only. */
const SHAPES = {
  alert: svg`<path d="M12 8.5v4.5M12 16.4v.1"/><path d="M10.3 4.3 2.9 17.2a2 2 0 0 0 1.7 3h14.8a2 2 0 0 0 1.7-3L13.7 4.3a2 2 0 0 0-3.4 0Z"/>`,
  attach: svg`<path d="m19.5 11.5-7.6 7.6a4.7 4.7 0 0 1-6.7-6.7l8-8a3.2 3.2 0 0 1 4.5 4.5l-8 8a1.6 1.6 0 0 1-2.3-2.3l7.2-7.1"/>`,
  arrow: svg`<path d="M5 12h14M13 6l6 6-6 6"/>`,
  camera: svg`<path d="M3 8.5A2.5 2.5 0 0 1 5.5 6h7A2.5 2.5 0 0 1 15 8.5v7a2.5 2.5 0 0 1-2.5 2.5h-7A2.5 2.5 0 0 1 3 15.5Z"/><path d="m15 10.5 4.4-2.6a1 1 0 0 1 1.6.8v6.6a1 1 0 0 1-1.6.8L15 13.5"/>`,
  cameraOff: svg`<path d="M14.6 17.5a2.5 2.5 0 0 1-2.1.5h-7A2.5 2.5 0 0 1 3 15.5v-7A2.5 2.5 0 0 1 5 6M9.5 6h3A2.5 2.5 0 0 1 15 8.5v3l4.4-3.6a1 1 0 0 1 1.6.8v6.6a1 1 0 0 1-.6.9M4 4l16 16"/>`,
  chat: svg`<path d="M20 11.5c0 4.1-3.6 7.5-8 7.5a8.6 8.6 0 0 1-3.3-.7L4 20l1.3-4A7.2 7.2 0 0 1 4 11.5C4 7.4 7.6 4 12 4s8 3.4 8 7.5Z"/>`,
  check: svg`<path d="m5 12.5 4.5 4.5L19 7.5"/>`,
  chevron: svg`<path d="m6 9.5 6 6 6-6"/>`,
  clock: svg`<circle cx="12" cy="12" r="8.5"/><path d="M12 7.5V12l3 2"/>`,
  close: svg`<path d="m6 6 12 12M18 6 6 18"/>`,
  copy: svg`<rect x="8.5" y="8.5" width="11.5" height="11.5" rx="2.5"/><path d="M15.5 8.5v-2A2.5 2.5 0 0 0 13 4H6.5A2.5 2.5 0 0 0 4 6.5V13a2.5 2.5 0 0 0 2.5 2.5h2"/>`,
  download: svg`<path d="M12 4v11M7 10.5l5 4.5 5-4.5M5 19.5h14"/>`,
  edit: svg`<path d="M4.5 19.5 5.6 15 16 4.6a1.8 1.8 0 0 1 2.5 0l.9.9a1.8 1.8 0 0 1 0 2.5L9 18.4Z"/>`,
  ear: svg`<path d="M7 9.5a5 5 0 0 1 10 0c0 4-3.5 4.5-3.8 8A3 3 0 0 1 7.6 19"/><path d="M9.8 10a2.2 2.2 0 1 1 3.7 1.6c-.9.8-1.3 1.2-1.3 2.4"/>`,
  file: svg`<path d="M13.5 3.5H7A2.5 2.5 0 0 0 4.5 6v12A2.5 2.5 0 0 0 7 20.5h10a2.5 2.5 0 0 0 2.5-2.5V9.5Z"/><path d="M13.5 3.5v6h6"/>`,
  flip: svg`<path d="M4 12a8 8 0 0 1 13.7-5.6L20 8.7M20 4v4.7h-4.7M20 12a8 8 0 0 1-13.7 5.6L4 15.3M4 20v-4.7h4.7"/>`,
  globe: svg`<circle cx="12" cy="12" r="8.5"/><path d="M3.5 12h17M12 3.5c2.3 2.4 3.5 5.2 3.5 8.5s-1.2 6.1-3.5 8.5c-2.3-2.4-3.5-5.2-3.5-8.5S9.7 5.9 12 3.5Z"/>`,
  hand: svg`<path d="M8 12.5V6a1.5 1.5 0 0 1 3 0v5M11 11V4.5a1.5 1.5 0 0 1 3 0V11M14 11V6a1.5 1.5 0 0 1 3 0v8.5a6 6 0 0 1-6 6 6 6 0 0 1-4.9-2.6L3.3 14a1.5 1.5 0 0 1 2.4-1.8L8 14.5"/>`,
  home: svg`<path d="m4 11 8-7 8 7v7.5a1.5 1.5 0 0 1-1.5 1.5h-13A1.5 1.5 0 0 1 4 18.5Z"/><path d="M9.5 20v-6h5v6"/>`,
  image: svg`<rect x="3.5" y="4.5" width="17" height="15" rx="2.5"/><circle cx="9" cy="10" r="1.5"/><path d="m4 17.5 4.5-4 3.5 3 3.5-3.5 4.5 4"/>`,
  info: svg`<circle cx="12" cy="12" r="8.5"/><path d="M12 11v5M12 8v.1"/>`,
  key: svg`<circle cx="8" cy="15.5" r="4"/><path d="m11 12.5 8-8M16 7.5l2.5 2.5"/>`,
  link: svg`<path d="M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3a4 4 0 0 0 5.7 5.7l1-1"/>`,
  menu: svg`<path d="M4 7h16M4 12h16M4 17h16"/>`,
  mic: svg`<rect x="9" y="3.5" width="6" height="11" rx="3"/><path d="M5.5 11.5a6.5 6.5 0 0 0 13 0M12 18v2.5"/>`,
  micOff: svg`<path d="M9 9v2.5a3 3 0 0 0 4.8 2.4M15 10.5v-4a3 3 0 0 0-5.7-1.3M5.5 11.5a6.5 6.5 0 0 0 10.3 5.3M18.5 11.5c0 .9-.2 1.7-.5 2.5M12 18v2.5M4 4l16 16"/>`,
  minus: svg`<path d="M5 12h14"/>`,
  mirror: svg`<path d="M12 4v16M9 8 4 16.5h5ZM15 8l5 8.5h-5Z"/>`,
  moon: svg`<path d="M19.5 14.2A8 8 0 0 1 9.8 4.5a8 8 0 1 0 9.7 9.7Z"/>`,
  more: svg`<path d="M5.5 12v.1M12 12v.1M18.5 12v.1" stroke-width="2.6"/>`,
  pause: svg`<path d="M8.5 5.5v13M15.5 5.5v13" stroke-width="2.4"/>`,
  phone: svg`<path d="M6.5 4h2.3a1 1 0 0 1 1 .8l.7 3.3a1 1 0 0 1-.5 1L8.3 10a12 12 0 0 0 5.7 5.7l.9-1.7a1 1 0 0 1 1-.5l3.3.7a1 1 0 0 1 .8 1v2.3a2 2 0 0 1-2 2A14.5 14.5 0 0 1 4.5 6a2 2 0 0 1 2-2Z"/>`,
  play: svg`<path d="M7.5 5.3v13.4a.8.8 0 0 0 1.2.7l10.6-6.7a.8.8 0 0 0 0-1.4L8.7 4.6a.8.8 0 0 0-1.2.7Z"/>`,
  plus: svg`<path d="M12 5v14M5 12h14"/>`,
  record: svg`<circle cx="12" cy="12" r="8.5"/><circle cx="12" cy="12" r="3.5" fill="currentColor" stroke="none"/>`,
  refresh: svg`<path d="M19.5 12a7.5 7.5 0 1 1-2.2-5.3L19.5 9M19.5 4.5V9H15"/>`,
  search: svg`<circle cx="11" cy="11" r="6.5"/><path d="m16 16 4 4"/>`,
  send: svg`<path d="M12 19V5.5M6 11l6-6 6 6"/>`,
  settings: svg`<path d="M4 8h9M18.5 8H20M4 16h1.5M11 16h9"/><circle cx="15.7" cy="8" r="2.5"/><circle cx="8.3" cy="16" r="2.5"/>`,
  share: svg`<path d="M12 14V4M8 7.5 12 4l4 3.5M6 11.5H5.5v7A1.5 1.5 0 0 0 7 20h10a1.5 1.5 0 0 0 1.5-1.5v-7H18"/>`,
  speaker: svg`<path d="M4 9.8v4.4h3l4.5 3.8V6L7 9.8ZM15.5 9a4.2 4.2 0 0 1 0 6M18 6.5a7.8 7.8 0 0 1 0 11"/>`,
  speakerOff: svg`<path d="M4 9.8v4.4h3l4.5 3.8V6L7 9.8ZM16 9.5l5 5M21 9.5l-5 5"/>`,
  stop: svg`<rect x="6.5" y="6.5" width="11" height="11" rx="2"/>`,
  sun: svg`<circle cx="12" cy="12" r="3.8"/><path d="M12 3v1.8M12 19.2V21M3 12h1.8M19.2 12H21M5.6 5.6l1.3 1.3M17.1 17.1l1.3 1.3M18.4 5.6l-1.3 1.3M6.9 17.1l-1.3 1.3"/>`,
  system: svg`<rect x="3.5" y="5" width="17" height="11.5" rx="2"/><path d="M9 20h6M12 16.5V20"/>`,
  trash: svg`<path d="M4.5 6.5h15M9.5 6.5V5a1 1 0 0 1 1-1h3a1 1 0 0 1 1 1v1.5M6.5 6.5l.8 12a1.5 1.5 0 0 0 1.5 1.5h6.4a1.5 1.5 0 0 0 1.5-1.5l.8-12M10 10.5v5.5M14 10.5v5.5"/>`,
  turns: svg`<path d="M4 8.5h12.5M13 5l3.5 3.5L13 12M20 15.5H7.5M11 12l-3.5 3.5L11 19"/>`,
  upload: svg`<path d="M12 15V4.5M7 9l5-4.5L17 9M5 19.5h14"/>`,
  voice: svg`<path d="M4 10.5v3M8 7.5v9M12 4.5v15M16 8v8M20 10.5v3"/>`,
  wifiOff: svg`<path d="M12 18.5v.1M8.5 15a5 5 0 0 1 5.4-1.1M5.5 11.8a9.3 9.3 0 0 1 4-2.3M3 8.5a13 13 0 0 1 4-2.6M18.5 11.8a9.3 9.3 0 0 0-5-2.6M21 8.5A13 13 0 0 0 11 5M4 4l16 16"/>`,
} satisfies Record<string, SVGTemplateResult>;

export type IconName = keyof typeof SHAPES;

/** An icon. If it is the only content of a button, the button needs an `aria-label`. */
export function icon(name: IconName): TemplateResult {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${SHAPES[name]}</svg>`;
}
