import { defineStrings } from "../i18n/strings.ts";

export const playerControlsStrings = defineStrings(
  {
    label: "Player",
    play: "Play",
    pause: "Pause",
    position: "Position",
    speed: "Speed",
    times: (rate: string) => `${rate}×`,
    previous: "Previous turn",
    next: "Next turn",
    of: (now: string, whole: string) => `${now} of ${whole}`,
    keys: "Space: play or pause. Left and right: seek. Up and down: previous and next turn.",
  },
  {
    label: "播放器",
    play: "播放",
    pause: "暂停",
    position: "播放位置",
    speed: "速度",
    times: (rate) => `${rate}×`,
    previous: "上一轮",
    next: "下一轮",
    of: (now, whole) => `${now}，共 ${whole}`,
    keys: "空格键：播放或暂停。左右键：定位。上下键：切换轮次。",
  },
);
