import type { ReactiveController, ReactiveControllerHost } from "lit";
import { socketProtocols } from "../../api/http.ts";
import type { Levels } from "../../audio/audio-engine.ts";
import { selectedDevices } from "../../audio/audio-settings.ts";
import { openMicrophone } from "../../audio/capture.ts";
import { allowChimes, chimeInQueue } from "../../audio/chimes.ts";
import { nowPlaying, stopAudio } from "../../components/audio-playback.ts";
import { deviceErrorText } from "../../components/device-select.ts";
import { namedVoice } from "../../components/named-voice.ts";
import { problemText } from "../../components/session-status.ts";
import { common } from "../../i18n/common.ts";
import {
  HalfDuplexSession,
  type HalfDuplexSessionState,
  type HalfDuplexTurnState,
  type TurnAudio,
} from "../../session/half-duplex-session.ts";
import type { Instructions } from "../../session/instructions.ts";
import { possibleGreeting } from "../../shell/capabilities.ts";
import { showError } from "../../shell/errors.ts";
import { keepConversation } from "../../storage/conversations.ts";
import { LeaveGuard } from "../../ui/base-element.ts";
import { toast } from "../../ui/toasts.ts";
import { halfDuplexSettings, prepareHalfDuplex } from "./panel.ts";

const TICK_MS = 500;

/** The session of the page. It is muted while recorded audio plays, and ends with the page. */
export class SessionController implements ReactiveController {
  readonly #host: ReactiveControllerHost;
  readonly #instructions: Instructions;
  readonly #onLevels: (levels: Levels) => void;
  #session: HalfDuplexSession | null = null;
  #unsubscribe: () => void = () => undefined;
  #unwatchPlayback: () => void = () => undefined;
  #timer = 0;
  #autoMuted = false;
  #attempt = 0;
  /** Loading what the session starts with. */
  #opening = false;
  /** When the user started to speak, `performance.now()`. */
  speechStartedAt = 0;

  constructor(
    host: ReactiveControllerHost,
    instructions: Instructions,
    onLevels: (levels: Levels) => void,
  ) {
    this.#host = host;
    this.#instructions = instructions;
    this.#onLevels = onLevels;
    host.addController(this);
    new LeaveGuard(host, () => this.running);
  }

  /** Null before the first session. */
  get state(): HalfDuplexSessionState | null {
    return this.#session?.state.value ?? null;
  }

  get opening(): boolean {
    return this.#opening;
  }

  /** A session is opening or active. */
  get running(): boolean {
    return this.#opening || this.#hasSession;
  }

  get #hasSession(): boolean {
    return this.state !== null && this.state.phase !== "ended";
  }

  hostConnected(): void {
    this.#timer = window.setInterval(() => this.running && this.#host.requestUpdate(), TICK_MS);
    window.addEventListener("pagehide", this.stop);
    this.#unwatchPlayback = nowPlaying.subscribe((playback) => this.#onPlaying(playback !== null));
  }

  hostDisconnected(): void {
    clearInterval(this.#timer);
    this.#unwatchPlayback();
    window.removeEventListener("pagehide", this.stop);
    this.stop();
  }

  /** Call it in a user gesture. */
  readonly start = async (): Promise<void> => {
    if (this.running) return;
    allowChimes();
    stopAudio();
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#setOpening(true);
    try {
      const prepare = await prepareHalfDuplex(halfDuplexSettings.value, this.#instructions);
      if (attempt !== this.#attempt) return;
      const connection = { protocols: socketProtocols() };
      const { greeting: words } = this.#instructions;
      const greeting = (): Promise<string> => possibleGreeting(words);
      const audio = selectedDevices();
      const session = new HalfDuplexSession({
        prepare,
        greeting,
        voice: namedVoice,
        connection,
        audio,
      });
      keepConversation(session.state, "half_duplex_audio", prepare.record !== false);
      this.#begin(session);
    } catch (error) {
      if (attempt === this.#attempt) showError(error);
    } finally {
      if (attempt === this.#attempt) this.#setOpening(false);
    }
  };

  readonly stop = (): void => {
    this.#attempt += 1;
    this.#setOpening(false);
    this.#session?.stop();
  };

  readonly retryNow = (): void => this.#session?.retryNow();

  readonly stopReply = (): void => {
    this.#session?.stopReply().catch((error: unknown) => showError(error));
  };

  readonly toggleMuted = (): void => {
    this.#autoMuted = false;
    this.#session?.setMuted(!this.state?.muted);
  };

  /** Opens the microphone again after it has stopped. */
  readonly useMicrophone = async (): Promise<void> => {
    const session = this.#session;
    try {
      const microphone = await openMicrophone(selectedDevices().microphone);
      await session?.setSource(microphone);
    } catch (error) {
      const remedy = deviceErrorText(error, "microphone");
      toast({ tone: "caution", title: common().deviceCheck.unusable, remedy });
    }
  };

  readonly audioOf = (turn: HalfDuplexTurnState): TurnAudio =>
    (this.#session as HalfDuplexSession).audioOf(turn);

  /** The microphone must not capture recorded audio that plays. */
  #onPlaying(plays: boolean): void {
    if (plays && this.#hasSession && !this.state?.muted) {
      this.#autoMuted = true;
      this.#session?.setMuted(true);
    } else if (!plays && this.#autoMuted) {
      this.#autoMuted = false;
      this.#session?.setMuted(false);
    }
  }

  #setOpening(opening: boolean): void {
    this.#opening = opening;
    this.#host.requestUpdate();
  }

  #begin(session: HalfDuplexSession): void {
    this.#unsubscribe();
    this.#session = session;
    let before = session.state.value;
    this.#unsubscribe = session.state.subscribe((state) => {
      if (state.turnState === "hearing" && before.turnState !== "hearing") {
        this.speechStartedAt = performance.now();
      }
      chimeInQueue(before, state);
      before = state;
      this.#host.requestUpdate();
    });
    session.on("levels", this.#onLevels);
    session.on("problem", (problem) => {
      if (session.state.value.phase !== "preparing")
        // otherwise the end of the session is shown
        toast({ tone: "caution", ...problemText(problem) });
    });
    this.#host.requestUpdate();
    void session.start();
  }
}
