/** Texts of the shell, the controls and the shared components. Pages have their own texts. */
export const en = {
  close: "Close",
  cancel: "Cancel",
  save: "Save",
  back: "Back",
  retry: "Try again",
  delete: "Delete",
  messages: "Messages",
  loading: "Loading…",

  nav: {
    label: "Main",
    skip: "Skip to the content",
    home: "Home",
    menu: "Menu",
    admin: "Admin",
    language: "Language",
    theme: "Appearance",
    system: "System",
    light: "Light",
    dark: "Dark",
  },

  apps: {
    turnbased: "Chat",
    half_duplex_audio: "Half-duplex",
    omni: "Video call",
    audio_duplex: "Voice call",
  },

  errors: {
    unreachable: "The server does not answer",
    unreachableRemedy: "Check your connection, then try again.",
    refused: "A key is needed",
    refusedRemedy: "Reload the page and enter the key that your operator gave you.",
    busy: "Too many requests",
    busyRemedy: "Wait a minute, then try again.",
    failed: "That did not work",
    pageOff: "This page is switched off",
    pageOffRemedy: "Ask the operator of this server, or choose another page from the menu.",
  },

  key: {
    title: "Enter your key",
    adminTitle: "Enter the admin token",
    why: "This server lets in only those who have a key. Ask its operator for one.",
    adminWhy: "This page changes how the server runs. It opens with the admin token.",
    label: "Key",
    adminLabel: "Admin token",
    wrong: "The server does not know this one. Check it for missing characters.",
    keep: "It is kept in this browser only.",
    adminKeep: "It is forgotten when you close this tab.",
    go: "Continue",
  },

  presets: {
    label: "Preset",
    none: "No preset",
    custom: "Own wording",
    prompt: "Instructions",
    failed: "Presets could not be loaded",
  },

  parts: {
    text: "Text",
    audio: "Sound",
    image: "Picture",
    video: "Video",
    up: (what: string) => `Move up: ${what}`,
    down: (what: string) => `Move down: ${what}`,
    remove: (what: string) => `Remove: ${what}`,
    notTaken: (name: string) => `${name} cannot be used`,
    objections: {
      kind: "Try a picture, WAV, MP3 or M4A sound, or an MP4, MOV or WebM video.",
      unreadable: "Your browser cannot read this file. It may be damaged, or of a rare kind.",
      tooLong: "Sounds may be 10 minutes long. Cut it and try again.",
      tooLarge: "Videos may have 48 MB. Use a shorter or smaller one.",
    },
  },

  voices: {
    label: "Voice",
    model: "Voice of the model",
    modelHint: "Who the model takes itself to be when it speaks.",
    speech: "Voice of the speech",
    speechHint: "How its answers sound. Usually the same one.",
    same: "Same as the model's",
    own: "The preset's voice",
    default: "Default voice",
    seconds: (seconds: string) => `${seconds} s`,
    mine: "Uploaded",
    shipped: "Included",
    play: (name: string) => `Listen to ${name}`,
    stop: "Stop listening",
    remove: (name: string) => `Delete ${name}`,
    removeAsk: (name: string) => `Delete “${name}” for everyone on this server?`,
    add: "Add a voice",
    upload: "Choose a file",
    record: "Record",
    recording: (clock: string) => `Recording, ${clock}`,
    stopRecording: "Stop recording",
    name: "Name",
    namePlaceholder: "A name to find it by",
    hint: "3 to 15 seconds of one person speaking clearly, without music. Everyone who uses this server can see and use it.",
    tooShort: "Too short: at least one second is needed.",
    unreadable: "This file holds no sound that your browser can read. Try WAV, MP3 or M4A.",
    saved: "Voice added",
    deleted: "Voice deleted",
  },

  queue: {
    title: "You are in line",
    next: "You are next",
    position: (position: number, length: number) => `Place ${position} of ${length}`,
    eta: (clock: string) => `about ${clock}`,
    soon: "any moment now",
    wait: "Stay on this page. A chime tells you when it is your turn.",
    leave: "Leave the line",
    chimes: "Chimes",
  },

  endings: {
    timeout: {
      title: "The conversation ended because nothing was heard",
      remedy: "Start a new one whenever you like.",
    },
    unreachable: {
      title: "The server does not answer",
      remedy: "Check your connection, then try again.",
    },
    lost: {
      title: "The connection was lost",
      remedy: "It was away for too long. Check your network, then start again.",
    },
    queue_full: {
      title: "Too many people are waiting",
      remedy: "The line is full. Try again in a few minutes.",
    },
    try_later: {
      title: "The server is busy",
      remedy: "Try again in a minute.",
    },
    broker_unavailable: {
      title: "The server is not ready",
      remedy: "Try again in a minute. If it stays like this, tell its operator.",
    },
    server_shutdown: {
      title: "The server is restarting",
      remedy: "Try again in a minute.",
    },
    slow_consumer: {
      title: "Your connection is too slow",
      remedy: "Try again with a better network.",
    },
    replaced: {
      title: "The conversation went on elsewhere",
      remedy: "Another tab or device has taken it over.",
    },
    cancelled: {
      title: "The operator ended this conversation",
      remedy: "You may start a new one.",
    },
    context_full: {
      title: "The conversation has become too long",
      remedy: "The model can remember no more. Start a new conversation.",
    },
    worker_lost: {
      title: "The model is gone",
      remedy: "It could not be restarted. Try again in a minute.",
    },
    inference_error: {
      title: "The model could not do that",
      remedy: "", // the message of the server is shown
    },
    message_too_large: {
      title: "That is too much at once",
      remedy: "Remove an attachment, or use a shorter one.",
    },
    unauthorized: {
      title: "A key is needed",
      remedy: "Reload the page and enter the key that your operator gave you.",
    },
    rate_limited: {
      title: "Too many requests",
      remedy: "Wait a minute, then try again.",
    },
    page_off: {
      title: "This page is switched off",
      remedy: "Ask the operator of this server, or choose another page from the menu.",
    },
  },

  player: {
    play: (what: string) => `Play: ${what}`,
    pause: (what: string) => `Pause: ${what}`,
    position: (what: string) => `Position: ${what}`,
  },

  recorder: {
    recording: (clock: string) => `Recording, ${clock}`,
    level: "Level of your microphone",
    keep: "Keep the recording",
    discard: "Discard the recording",
  },

  session: {
    connecting: "Connecting…",
    reconnecting: "Connection lost. Reconnecting…",
    reconnectingHint: (seconds: number) => `Your conversation is kept for ${seconds} more seconds.`,
    retryNow: "Reconnect now",
    lost: "The conversation could not be resumed",
    lostHint: "The connection was away for too long. You can begin a new one.",
    again: "Start again",
    resumed: "Back in the conversation",
  },

  preflight: {
    title: "Check your microphone",
    intro: "A few seconds now save a bad call later.",
    secure: "Secure connection",
    secureBad:
      "Browsers give the microphone to secure pages only. Open this page over https:// or on localhost.",
    permission: "Microphone allowed",
    permissionAsk: "Your browser will ask whether this page may listen.",
    permissionBad:
      "The browser blocks the microphone. Click the symbol beside the address, allow the microphone, then try again.",
    missing: "No microphone was found. Plug one in, then try again.",
    unusable: "Your microphone cannot be used",
    inUse: "Another program holds the microphone. Close it, then try again.",
    camera: "Camera allowed",
    cameraBad:
      "The browser blocks the camera. Click the symbol beside the address, allow the camera, then try again.",
    cameraMissing: "No camera was found. Plug one in, or use a voice call.",
    devices: "Devices",
    microphone: "Microphone",
    speaker: "Speaker",
    video: "Camera",
    systemDefault: "System default",
    noise: "Suppress background noise",
    level: "Level",
    levelQuiet: "Say something. Nothing is heard yet.",
    levelGood: "You are heard well.",
    levelHot: "Too loud: move away a little or lower the input level.",
    echo: "Echo",
    echoIntro: "Plays a short sound and listens whether your microphone hears it.",
    echoTest: "Test the echo",
    echoAgain: "Test again",
    echoRunning: "Listening…",
    echoNone: "No echo: the model will not hear itself.",
    echoSome: "A little echo is left. Lower the volume, or use headphones for the best result.",
    echoMuch:
      "Your microphone hears the speaker. Use headphones, or the model may interrupt itself.",
    allow: "Allow the microphone",
    allowBoth: "Allow microphone and camera",
    done: "All set",
  },
};
