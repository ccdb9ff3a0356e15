import { html, type PropertyValues, type TemplateResult } from "lit";
import { customElement, property, query } from "lit/decorators.js";
import { BaseElement, freshId } from "../ui/base-element.ts";
import "./components.css";

/** Outlines of the orb. Pure. Lengths are in viewBox units, angles and phases in radians. */

const POINTS = 48;

interface Outline {
  readonly radius: number;
  /** Amplitude as a share of the radius. */
  readonly swing: number;
  /** Number of waves around the outline. */
  readonly waves: number;
  readonly phase: number;
}

/** Returns a closed, smooth path around the origin for the `d` attribute. */
export function outlinePath(outline: Outline): string {
  const points = Array.from({ length: POINTS }, (_, i) =>
    pointAt(outline, (i / POINTS) * 2 * Math.PI),
  );
  const middles = points.map((point, i) => between(point, points[(i + 1) % POINTS] ?? point));
  const curves = points.map((point, i) => `Q${pair(point)} ${pair(middles[i] ?? point)}`);
  return `M${pair(middles[POINTS - 1] ?? [0, 0])}${curves.join("")}Z`;
}

/** Radius at an angle, between `radius * (1 - swing)` and `radius * (1 + swing)`. */
export function radiusAt({ radius, swing, waves, phase }: Outline, angle: number): number {
  const slow = Math.sin(waves * angle + phase);
  const fast = Math.sin((waves + 2) * angle - 1.7 * phase);
  return radius * (1 + swing * (0.65 * slow + 0.35 * fast));
}

type Point = readonly [number, number];

function pointAt(outline: Outline, angle: number): Point {
  const radius = radiusAt(outline, angle);
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}

function between(one: Point, other: Point): Point {
  return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
}

function pair([x, y]: Point): string {
  return `${x.toFixed(2)} ${y.toFixed(2)}`;
}

export type OrbMode =
  | "idle"
  | "connecting"
  | "listening"
  | "hearing"
  | "thinking"
  | "speaking"
  | "paused"
  | "ended";

const FRAME_MS = 33;
const CALM_FRAME_MS = 66; // slow frame rate while nobody speaks, to save battery
const CALM: ReadonlySet<OrbMode> = new Set(["idle", "paused", "ended"]); // no animation

/**
 * Animated picture of both voices: the body is the model, the line around it is the user.
 * Decoration only, so the page must also show its meaning as text. With reduced motion it only
 * grows.
 */
@customElement("an-voice-orb")
export class VoiceOrb extends BaseElement {
  readonly #id = freshId("orb");
  readonly #still = matchMedia("(prefers-reduced-motion: reduce)");
  #frame = 0;
  #drawnAt = 0;
  #phase = 0;
  #userNow = 0;
  #modelNow = 0;

  @property() mode: OrbMode = "idle";
  /** Level of each side, 0 to 1. */
  @property({ attribute: false }) userLevel = 0;
  @property({ attribute: false }) modelLevel = 0;

  @query(".body") private readonly body!: SVGPathElement | null;
  @query(".halo") private readonly halo!: SVGPathElement | null;
  @query(".ripple") private readonly ripple!: SVGPathElement | null;
  @query(".line") private readonly line!: SVGPathElement | null;

  override disconnectedCallback(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    super.disconnectedCallback();
  }

  protected override render(): TemplateResult {
    const glow = `url(#${this.#id}-glow)`;
    const skin = `url(#${this.#id}-skin)`;
    return html`<svg class="orb ${this.mode}" viewBox="-100 -100 200 200" aria-hidden="true">
      <defs>
        <radialGradient id="${this.#id}-glow">
          <stop class="glow-in" offset="45%" />
          <stop class="glow-out" offset="100%" />
        </radialGradient>
        <radialGradient id="${this.#id}-skin" cx="36%" cy="30%" r="78%">
          <stop class="skin-light" offset="0%" />
          <stop class="skin-deep" offset="100%" />
        </radialGradient>
      </defs>
      <circle class="glow" r="98" fill=${glow} />
      <path class="ripple" />
      <path class="halo" fill=${skin} />
      <path class="body" fill=${skin} />
      <path class="line" />
      <circle class="orbit" r="74" />
    </svg>`;
  }

  protected override updated(changed: PropertyValues<this>): void {
    if (changed.has("mode") || this.#still.matches) this.#draw();
    if (this.#moves && this.#frame === 0) this.#frame = requestAnimationFrame(this.#tick);
  }

  get #moves(): boolean {
    const fading = this.#userNow + this.#modelNow > 0.01;
    return this.isConnected && !this.#still.matches && (!CALM.has(this.mode) || fading);
  }

  readonly #tick = (now: number): void => {
    const passed = now - this.#drawnAt;
    const loud = Math.max(this.#userNow, this.#modelNow, this.userLevel, this.modelLevel) > 0.02;
    if (passed >= (loud ? FRAME_MS : CALM_FRAME_MS)) {
      this.#drawnAt = now;
      this.#move(Math.min(passed, 100) / 1000);
      this.#draw();
    }
    this.#frame = this.#moves ? requestAnimationFrame(this.#tick) : 0;
  };

  #move(seconds: number): void {
    const calm = CALM.has(this.mode);
    this.#userNow = eased(this.#userNow, calm ? 0 : this.userLevel, seconds);
    this.#modelNow = eased(this.#modelNow, calm ? 0 : this.modelLevel, seconds);
    const pace = this.mode === "thinking" ? 2.4 : 0.7 + 2 * Math.max(this.#userNow, this.#modelNow);
    this.#phase += seconds * pace;
  }

  #draw(): void {
    const [user, model] = this.#still.matches
      ? [this.userLevel, this.modelLevel]
      : [this.#userNow, this.#modelNow];
    const alive = this.#still.matches ? 0 : 1;
    const breath = alive * 0.012 * Math.sin(this.#phase * 1.4);
    const phase = this.#phase;
    const radius = 50 * (1 + 0.2 * model + breath);
    const swing = alive * (0.014 + 0.045 * model);
    set(this.body, { radius, swing, waves: 3, phase });
    set(this.halo, {
      radius: radius * (1.08 + 0.1 * model),
      swing: swing * 1.8,
      waves: 2,
      phase: -phase,
    });
    set(this.ripple, {
      radius: radius * (1.2 + 0.16 * model),
      swing: swing * 2,
      waves: 3,
      phase: phase * 0.8,
    });
    set(this.line, {
      radius: 76 + 7 * user,
      swing: alive * 0.11 * user,
      waves: 7,
      phase: phase * 2.2,
    });
    this.style.setProperty("--user-level", user.toFixed(3));
    this.style.setProperty("--model-level", model.toFixed(3));
  }
}

/** Rises fast and falls slowly. */
function eased(now: number, wanted: number, seconds: number): number {
  const rate = wanted > now ? 14 : 5;
  return now + (wanted - now) * (1 - Math.exp(-rate * seconds));
}

function set(path: SVGPathElement | null, outline: Parameters<typeof outlinePath>[0]): void {
  path?.setAttribute("d", outlinePath(outline));
}
