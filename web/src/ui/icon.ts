import { html, type TemplateResult } from "lit";
import { unsafeSVG } from "lit/directives/unsafe-svg.js";
import arrow from "lucide/dist/esm/icons/arrow-right.mjs";
import turns from "lucide/dist/esm/icons/arrow-right-left.mjs";
import send from "lucide/dist/esm/icons/arrow-up.mjs";
import voice from "lucide/dist/esm/icons/audio-lines.mjs";
import book from "lucide/dist/esm/icons/book-open.mjs";
import check from "lucide/dist/esm/icons/check.mjs";
import chevron from "lucide/dist/esm/icons/chevron-down.mjs";
import help from "lucide/dist/esm/icons/circle-question-mark.mjs";
import clock from "lucide/dist/esm/icons/clock.mjs";
import code from "lucide/dist/esm/icons/code.mjs";
import copy from "lucide/dist/esm/icons/copy.mjs";
import record from "lucide/dist/esm/icons/disc.mjs";
import download from "lucide/dist/esm/icons/download.mjs";
import more from "lucide/dist/esm/icons/ellipsis.mjs";
import file from "lucide/dist/esm/icons/file.mjs";
import hand from "lucide/dist/esm/icons/hand.mjs";
import image from "lucide/dist/esm/icons/image.mjs";
import info from "lucide/dist/esm/icons/info.mjs";
import key from "lucide/dist/esm/icons/key.mjs";
import link from "lucide/dist/esm/icons/link.mjs";
import expand from "lucide/dist/esm/icons/maximize.mjs";
import menu from "lucide/dist/esm/icons/menu.mjs";
import chat from "lucide/dist/esm/icons/message-circle.mjs";
import mic from "lucide/dist/esm/icons/mic.mjs";
import micOff from "lucide/dist/esm/icons/mic-off.mjs";
import minus from "lucide/dist/esm/icons/minus.mjs";
import system from "lucide/dist/esm/icons/monitor.mjs";
import moon from "lucide/dist/esm/icons/moon.mjs";
import attach from "lucide/dist/esm/icons/paperclip.mjs";
import pause from "lucide/dist/esm/icons/pause.mjs";
import edit from "lucide/dist/esm/icons/pencil.mjs";
import phone from "lucide/dist/esm/icons/phone.mjs";
import pip from "lucide/dist/esm/icons/picture-in-picture-2.mjs";
import play from "lucide/dist/esm/icons/play.mjs";
import plus from "lucide/dist/esm/icons/plus.mjs";
import refresh from "lucide/dist/esm/icons/rotate-cw.mjs";
import search from "lucide/dist/esm/icons/search.mjs";
import settings from "lucide/dist/esm/icons/settings-2.mjs";
import share from "lucide/dist/esm/icons/share.mjs";
import stop from "lucide/dist/esm/icons/square.mjs";
import sun from "lucide/dist/esm/icons/sun.mjs";
import flip from "lucide/dist/esm/icons/switch-camera.mjs";
import trash from "lucide/dist/esm/icons/trash.mjs";
import alert from "lucide/dist/esm/icons/triangle-alert.mjs";
import upload from "lucide/dist/esm/icons/upload.mjs";
import camera from "lucide/dist/esm/icons/video.mjs";
import cameraOff from "lucide/dist/esm/icons/video-off.mjs";
import speaker from "lucide/dist/esm/icons/volume-2.mjs";
import speakerOff from "lucide/dist/esm/icons/volume-x.mjs";
import wifiOff from "lucide/dist/esm/icons/wifi-off.mjs";
import close from "lucide/dist/esm/icons/x.mjs";

/** From [Lucide](https://lucide.dev): tags and attributes on a 24 grid, drawn with strokes only. */
const SHAPES = {
  alert,
  arrow,
  attach,
  book,
  camera,
  cameraOff,
  chat,
  check,
  chevron,
  clock,
  close,
  code,
  copy,
  download,
  edit,
  expand,
  file,
  flip,
  hand,
  help,
  image,
  info,
  key,
  link,
  menu,
  mic,
  micOff,
  minus,
  moon,
  more,
  pause,
  phone,
  pip,
  play,
  plus,
  record,
  refresh,
  search,
  send,
  settings,
  share,
  speaker,
  speakerOff,
  stop,
  sun,
  system,
  trash,
  turns,
  upload,
  voice,
  wifiOff,
};

export type IconName = keyof typeof SHAPES;

const MARKUP = Object.fromEntries(
  Object.entries(SHAPES).map(([name, shape]) => [name, shape.map(element).join("")]),
) as Record<IconName, string>;

function element([tag, attributes]: (typeof SHAPES)[IconName][number]): string {
  const all = Object.entries(attributes).map(([name, value]) => ` ${name}="${value}"`);
  return `<${tag}${all.join("")}/>`;
}

/** An icon. If it is the only content of a button, the button needs an `aria-label`. */
export function icon(name: IconName): TemplateResult {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${unsafeSVG(MARKUP[name])}</svg>`;
}
