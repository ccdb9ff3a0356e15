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

  help: {
    title: "Help",
    key: "Open the help with the key “?”",
  },

  nav: {
    label: "Main",
    skip: "Skip to content",
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
    half_duplex_audio: "Take turns",
    omni: "Video call",
    audio_duplex: "Voice call",
  },

  errors: {
    outdated: "This browser is too old for this page",
    outdatedRemedy:
      "Update it, or use another one: Chrome or Edge 123, Firefox 121, Safari 17.5, or a newer version.",
    unreachable: "Cannot reach the server",
    unreachableRemedy: "Check your internet connection, then try again.",
    refused: "Key required",
    refusedRemedy: "Ask the server's operator for one.",
    busy: "Too many requests",
    busyRemedy: "Wait a minute, then try again.",
    failed: "Something went wrong",
    invalidAnswer: "The server sent an answer that this page cannot read",
    invalidAnswerRemedy: (problem: string) =>
      `Reload the page. If that does not help, send this to the server's operator: ${problem}`,
    pageOff: "This page is turned off",
    pageOffRemedy: "Ask the server's operator, or choose another page from the menu.",
  },

  key: {
    title: "Enter your key",
    enter: "Enter key",
    adminTitle: "Enter the admin token",
    why: "This server requires a key. Ask its operator for one.",
    adminWhy: "This page controls the server and requires the admin token.",
    label: "Key",
    adminLabel: "Admin token",
    wrong: "This key is not valid. Check it for missing characters.",
    characters: "Use only English letters, digits and punctuation marks, without spaces.",
    keep: "Stored only in this browser.",
    adminKeep: "Removed when you close this tab.",
    go: "Continue",
  },

  capabilities: {
    simulated: "This server simulates the model. Its answers have no meaning.",
    blind: (model: string) => `${model} cannot see. It receives only audio.`,
    recognises: "It recognises everyday objects and colours, and reads text.",
    hears: (model: string, languages: string) =>
      `${model} understands speech in ${languages} only.`,
    seen: "What do you see?",
    questions: {
      first: "What is the capital of Japan?",
      second: "Explain in two sentences why the sky is blue.",
      third: "Give me three ideas for a rainy afternoon.",
    },
    example: (question: string) => `For example: “${question}”`,
  },

  presets: {
    label: "Preset",
    none: "No preset",
    prompt: "Instructions",
    greeting: "Greeting",
    greetingHint: "The model says this first. Leave it empty to speak first.",
    failed: "Cannot load presets",
  },

  settings: {
    reset: "Reset settings",
    wereReset: "The settings have their initial values",
    undo: "Undo",
    length: "Length of answers",
    lengths: { short: "Concise", medium: "Balanced", long: "Detailed" },
  },

  parts: {
    text: "Text",
    audio: "Audio",
    image: "Image",
    video: "Video",
    up: (what: string) => `Move up: ${what}`,
    down: (what: string) => `Move down: ${what}`,
    remove: (what: string) => `Remove: ${what}`,
    rejected: (name: string) => `Cannot use ${name}`,
    problems: {
      kind: "Use an image, WAV, MP3 or M4A audio, or MP4, MOV or WebM video.",
      blind: "This model cannot see. Use audio, or describe it in words.",
      unreadable:
        "Your browser cannot read this file. It may be damaged or in an unsupported format.",
      tooLong: "The limit for audio is 10 minutes. Use a shorter file.",
      tooLarge: "The limit for videos is 48 MB. Use a shorter or smaller video.",
    },
  },

  voices: {
    label: "Voice",
    model: "Reference voice",
    modelHint: "The voice that the model imitates.",
    speech: "Output voice",
    speechHint: "Overrides the voice of the answers. Usually not needed.",
    same: "Same voice",
    own: "Preset voice",
    default: "Default voice",
    noneNamed: "Default",
    named: (name: string, accent: string, gender: string) => `${name} · ${accent}, ${gender}`,
    accents: { "en-US": "American", "en-GB": "British", "zh-CN": "Mandarin" },
    genders: { female: "female", male: "male" },
    seconds: (seconds: string) => `${seconds} s`,
    mine: "Uploaded",
    shipped: "Included",
    shippedNames: {
      chinese: "Chinese",
      english: "English",
      english_female: "English female",
    },
    play: (name: string) => `Play ${name}`,
    stop: "Stop playing",
    remove: (name: string) => `Delete ${name}`,
    removeAsk: (name: string) => `Delete “${name}” for everyone on this server?`,
    add: "Add voice",
    upload: "Choose file",
    record: "Record",
    recording: (clock: string) => `Recording, ${clock}`,
    stopRecording: "Stop recording",
    name: "Name",
    namePlaceholder: "Voice name",
    hint: "3 to 15 seconds of one person speaking clearly, without music. All users of this server can see and use it.",
    tooShort: "Too short. Record at least one second.",
    unreadable: "Your browser cannot read audio from this file. Use WAV, MP3 or M4A.",
    saved: "Voice added",
    deleted: "Voice deleted",
  },

  queue: {
    title: "Waiting in queue",
    next: "You are next",
    position: (position: number, length: number) => `Position ${position} of ${length}`,
    eta: (clock: string) => `about ${clock}`,
    soon: "soon",
    stale: "not updated at the moment",
    reasons: {
      no_worker: "The model is not running",
      kind_not_served: "This kind of conversation is not available now",
      worker_loading: "The model is starting",
    },
    wait: "Keep this page open. A sound plays when it is your turn.",
    leave: "Leave queue",
    chimes: "Sound notifications",
  },

  sessionErrors: {
    speech_lost: {
      title: "Part of what you said was not heard",
      remedy: "The connection was lost. Please say it again.",
    },
    frame_unreadable: {
      title: "The camera's picture cannot be read",
      remedy:
        "The call goes on with sound only. Choose another camera, or turn this one off and on.",
    },
    timeout: {
      title: "The session ended because it was idle",
      remedy: "You can start a new one.",
    },
    unreachable: {
      title: "Cannot reach the server",
      remedy: "Check your internet connection, then try again.",
    },
    no_websockets: {
      title: "The server is reachable, but no WebSocket opens",
      remedy:
        "A proxy between this browser and the server does not pass WebSockets. Administrators: it must pass the headers Upgrade and Connection.",
    },
    lost: {
      title: "Connection lost",
      remedy: "Reconnecting took too long. Check your internet connection, then start again.",
    },
    queue_full: {
      title: "The queue is full",
      remedy: "Try again in a few minutes.",
    },
    no_worker: {
      title: "The model is not running",
      remedy: "Try again in a minute. If this continues, tell the server's operator.",
    },
    try_later: {
      title: "The server is busy",
      remedy: "Try again in a minute.",
    },
    broker_unavailable: {
      title: "The server is not ready",
      remedy: "Try again in a minute. If this continues, tell the server's operator.",
    },
    server_shutdown: {
      title: "The server is restarting",
      remedy: "Try again in a minute.",
    },
    slow_consumer: {
      title: "Your connection is too slow",
      remedy: "Use a faster network and try again.",
    },
    replaced: {
      title: "Session moved",
      remedy: "Another tab or device took over this session.",
    },
    cancelled: {
      title: "The operator ended this session",
      remedy: "You can start a new one.",
    },
    context_full: {
      title: "Context limit reached",
      remedy: "The conversation is too long for the model. Start a new one.",
    },
    worker_lost: {
      title: "The model stopped",
      remedy: "The server could not recover the session. Try again in a minute.",
    },
    inference_error: {
      title: "The model reported an error",
      remedy: "", // the message of the server is shown
    },
    invalid_field: { title: "The message was refused", remedy: "" },
    message_too_large: {
      title: "The message is too large",
      remedy: "Remove an attachment, or use a shorter one.",
    },
    unauthorized: {
      title: "Key required",
      remedy: "Ask the server's operator for one.",
    },
    rate_limited: {
      title: "Too many requests",
      remedy: "Wait a minute, then try again.",
    },
    page_off: {
      title: "This page is turned off",
      remedy: "Ask the server's operator, or choose another page from the menu.",
    },
  },

  player: {
    play: (what: string) => `Play: ${what}`,
    pause: (what: string) => `Pause: ${what}`,
    position: (what: string) => `Position: ${what}`,
  },

  recorder: {
    recording: (clock: string) => `Recording, ${clock}`,
    level: "Microphone level",
    keep: "Use recording",
    discard: "Discard recording",
    release: "Release to attach",
    unreadable: "The recording cannot be read. Record it again.",
  },

  session: {
    connecting: "Connecting…",
    reconnecting: "Connection lost. Reconnecting…",
    reconnectingHint: (seconds: number) => `It can resume for ${seconds} more seconds.`,
    retryNow: "Reconnect now",
    again: "Start again",
    resumed: "Reconnected",
    recorded: "Recorded",
    recordedHint: "The server records this conversation",
    notRecorded: "Not recorded",
    notRecordedHint: "The server does not record this conversation",
    simulated: "Simulated engine",
  },

  deviceCheck: {
    title: "Check your microphone",
    intro: "Check that your microphone works before you start.",
    secure: "Secure connection",
    secureBad:
      "Browsers allow the microphone only on secure pages. Open this page over https:// or on localhost.",
    permission: "Microphone access",
    permissionAsk: "Your browser asks for permission to use the microphone.",
    permissionBad:
      "Microphone access is blocked. Click the icon next to the address, allow the microphone, then try again.",
    missing: "No microphone found. Connect one, then try again.",
    unusable: "Cannot use your microphone",
    outdated:
      "This browser gives pages no access to the microphone, or cannot process sound. Update it, or use another one.",
    noOutput: "Your browser cannot start audio. Connect a speaker or headphones, then try again.",
    inUse: "Another app is using the microphone. Close it, then try again.",
    camera: "Camera access",
    cameraBad:
      "Camera access is blocked. Click the icon next to the address, allow the camera, then try again.",
    cameraMissing: "No camera found. Connect one, or use a voice call.",
    devices: "Devices",
    microphone: "Microphone",
    speaker: "Speaker",
    video: "Camera",
    systemDefault: "System default",
    notConnected: "Selected device (not connected)",
    lost: "Your microphone has stopped",
    lostHint: "It was disconnected, or the browser no longer allows it. You are not heard.",
    reopen: "Use microphone",
    noise: "Noise suppression",
    level: "Input level",
    levelQuiet: "Say something. No sound detected yet.",
    levelGood: "Your microphone works.",
    levelHot: "Too loud. Move away from the microphone or lower the input volume.",
    echo: "Echo",
    echoIntro: "Plays a short sound and checks whether your microphone picks it up.",
    echoTest: "Test echo",
    echoAgain: "Test again",
    echoRunning: "Listening…",
    echoNone: "No echo. The model will not hear itself.",
    echoSome: "Some echo. Lower the volume, or use headphones.",
    echoMuch: "Strong echo. Use headphones, or the model may interrupt itself.",
    allow: "Allow microphone",
    allowBoth: "Allow microphone and camera",
    done: "Done",
  },
};
