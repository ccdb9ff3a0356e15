"""What a unit of MiniCPM-o costs: random weights at the real sizes on a GPU, the tiny ones on a CPU.

    python bench/gpu_duplex.py                     # on a GPU: real sizes, 1 to 32 sessions
    python bench/gpu_duplex.py --sessions 1,4 --frames
    python bench/gpu_duplex.py --sessions 16,32 --paced

No checkpoint is needed. Every session's context is half full and hears a second of noise per unit; a
LISTEN unit is forced to listen, a SPEAK unit is made to write its full 18 words and speak 25 codes.
All sessions begin their units together, or `--paced` each at its own moment of every second. Units
include Token2wav, with voices of 5 s, where its package is there. Prints Markdown.
"""

from __future__ import annotations

import argparse
import gc
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import numpy as np
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, KernelChoice
from antiphon.inference_worker.engines.minicpmo.preprocess.images import decode_image, slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine
from antiphon.inference_worker.engines.minicpmo.scheduling.runner import Runner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import SpeechSettings, Steps
from antiphon.inference_worker.engines.minicpmo.sessions.context import AudioInput
from antiphon.inference_worker.engines.minicpmo.sessions.duplex import (
    DuplexConversation,
)
from antiphon.inference_worker.engines.minicpmo.sessions.speech_output import SpeechContext
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.shared_schemas.config import DuplexConfig
from random_model import TINY, WORD, WordySampler, config_of, noise_picture, random_network
from random_voice import random_vocoder, random_voice
from roofline import Card, roofline

GIB = 2**30
VOICE_S = 5


class Bench:
    """A network and groups of sessions on it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.args = args
        self.sizes = args.sizes or ("real" if self.device.type == "cuda" else "tiny")
        self.config = config_of(self.sizes)
        self.tokenizer = Tokenizer(TINY)
        self.network = random_network(self.config, self.device, args.kernels)
        self.frames = [noise_picture()] if args.frames else []
        self.vocoder = random_vocoder(self.sizes, self.device)
        self.voices: list[VoiceState] = []
        self.stages: dict[str, list[float]] = defaultdict(list)

    def crowd(self, count: int) -> tuple[Runner, list[DuplexConversation]]:
        """A runner with `count` slots and a session in each."""
        runner = Runner(
            self.network,
            WordySampler(self.tokenizer.ids, self.tokenizer.forbidden, "upstream"),
            slots=count,
            context=self.args.context,
            speech_context=1024,
            invariant=False,
            cuda_graphs=self.device.type == "cuda" and not self.args.eager,
        )
        if self.args.cudnn:
            torch.backends.cuda.enable_cudnn_sdp(True)
        runner.enter_thread()
        runner.capture_graphs()
        if self.device.type == "cuda":
            runner.warm_up()
        return runner, [self.session(slot) for slot in range(count)]

    def session(self, slot: int) -> DuplexConversation:
        end = self.config.tts_config.end_code
        return DuplexConversation(
            slot,
            self.tokenizer,
            AudioInput(slot=slot, capacity=self.config.audio_config.max_source_positions),
            SpeechContext(slot=slot, capacity=1024, end_code=end, settings=SpeechSettings()),
            config=DuplexConfig(force_listen_count=0),
            options=EngineOptions(context_tokens=self.args.context),
        )

    def measure(self, count: int) -> dict[str, Any]:
        """Unit times in milliseconds of `count` sessions, over all sessions and units."""
        gc.collect()  # frees the caches of the last measurement
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        began = time.perf_counter()
        runner, sessions = self.crowd(count)
        loaded = time.perf_counter() - began
        engine, units = Engine(runner), self.args.units
        if self.vocoder is not None:
            self.vocoder.warm_up(count)
            self.voices = [random_voice(self.vocoder, VOICE_S) for _ in sessions]
        try:
            with ThreadPoolExecutor(count) as threads:
                list(threads.map(lambda s: engine.run(self.prepare(s)), sessions))
                self.round(engine, threads, sessions, units=2)
                listen = self.round(engine, threads, sessions, listen=True, units=units)
                speak = self.round(engine, threads, sessions, units=units)
                ran = (runner.graphs.replayed, runner.graphs.eager)
                self.profile(runner, lambda: self.round(engine, threads, sessions, units=2))
        finally:
            engine.close()
        return {
            "sessions": count,
            "listen": listen,
            "speak": speak,
            "graphs": ran[0] / max(1, sum(ran)),
            "loaded": loaded,
            "vram": self.taken(),
        }

    def prepare(self, session: DuplexConversation) -> Steps[None]:
        """Feed a system prompt, and tokens up to half of the context."""
        yield from session.prepare("system", "end", [])
        words = (WORD,) * (self.args.context // 2 - session.length)
        yield from session.feed([words], want_logits=False)

    def taken(self) -> int:
        """Bytes of the GPU that are not free, including graphs."""
        if self.device.type != "cuda":
            return 0
        free, total = torch.cuda.mem_get_info()
        return int(total - free)

    def round(
        self,
        engine: Engine,
        threads: ThreadPoolExecutor,
        sessions: list[DuplexConversation],
        *,
        listen: bool = False,
        units: int,
    ) -> list[float]:
        """Run `units` units of every session, started together or paced."""
        together = threading.Barrier(len(sessions))
        noise = np.random.default_rng(0).normal(0, 0.05, 16000).astype(np.float32)
        start = time.perf_counter()

        def one(session: DuplexConversation) -> list[float]:
            try:
                return all_units(session)
            except BaseException:
                together.abort()  # or the others would wait forever
                raise

        def wait_for(session: DuplexConversation, unit: int) -> float:
            """Wait for the start of the unit; returns its time."""
            if not self.args.paced:
                together.wait()
                return time.perf_counter()
            due = start + unit + session.slot / len(sessions)
            time.sleep(max(0.0, due - time.perf_counter()))
            return due

        def all_units(session: DuplexConversation) -> list[float]:
            times = []
            for unit in range(units):
                began = wait_for(session, unit)
                mel = session.audio_input.push(noise)
                pictures = [
                    slice_image(decode_image(f), self.config.slice_config, 1) for f in self.frames
                ]
                engine.run(session.prefill(mel, pictures))
                outcome = engine.run(session.generate(force_listen=listen))
                self.sound(session.slot, outcome.codes)
                times.append((time.perf_counter() - began) * 1000)
                engine.run(session.finalize())
            return times

        return [t for times in threads.map(one, sessions) for t in times]

    def sound(self, slot: int, codes: list[int]) -> None:
        """Synthesize the codes of a unit."""
        if self.vocoder is None or not codes:
            return
        began = time.perf_counter()
        self.vocoder.synthesize(self.voices[slot], codes, last=False)
        self.stages["Token2wav, a session's wait"].append((time.perf_counter() - began) * 1000)

    def profile(self, runner: Runner, work: Callable[[], object]) -> None:
        """Time every batch of `work` by the type of its steps."""
        self.stages.clear()
        run = runner.run
        paced, self.args.paced = self.args.paced, False

        def timed(steps: Any) -> Any:
            self.settle()
            began = time.perf_counter()
            answers = run(steps)
            self.settle()
            kind = type(steps[0]).__name__
            size = getattr(steps[0], "size", 1)
            label = f"{kind} of {size}" if kind in ("Feed", "DecodeSpeech") else kind
            self.stages[label].append((time.perf_counter() - began) * 1000)
            return answers

        runner.run = timed  # type: ignore[method-assign]
        work()
        del runner.run  # uncovers the method
        self.args.paced = paced

    def settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", default="", help="crowd sizes, such as 1,2,4,8,16,32")
    parser.add_argument("--units", type=int, default=8, help="units of each kind per session")
    parser.add_argument("--context", type=int, default=4096, help="tokens per slot")
    parser.add_argument("--frames", action="store_true", help="a picture in every unit")
    parser.add_argument("--sizes", choices=["real", "tiny"], help="instead of by device")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    parser.add_argument("--paced", action="store_true", help="each at its own moment of a second")
    parser.add_argument(
        "--kernels",
        default="auto",
        choices=get_args(KernelChoice),
        help="between a decoder layer's products, on a GPU (auto: triton where it compiles)",
    )
    parser.add_argument("--cudnn", action="store_true", help="with cuDNN's attention")
    parser.add_argument(
        "--tbps", type=float, default=4.8, help="memory bandwidth, TB/s (H200: 4.8)"
    )
    parser.add_argument("--tflops", type=float, default=989.0, help="bfloat16 TFLOP/s (H200: 989)")
    args = parser.parse_args()
    bench = Bench(args)
    on_gpu = bench.device.type == "cuda"
    card = torch.cuda.get_device_name() if on_gpu else "CPU"
    voice = "with" if bench.vocoder else "without (no minicpmo-utils here)"
    print(f"{bench.sizes} sizes with random weights on {card}, torch {torch.__version__},")
    print(f"{voice} Token2wav\n")
    if not on_gpu:
        print("No GPU here: these numbers say that the bench runs, and nothing about the model.\n")
    default = "1,2,4,8,16,32" if on_gpu else "1,4"
    print(
        "| sessions | LISTEN p50 | p99 | SPEAK p50 | p99, ms | graphs | VRAM, GiB | ready in, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    count = 1
    for count in map(int, (args.sessions or default).split(",")):
        got = bench.measure(count)
        listen, speak = got["listen"], got["speak"]
        print(
            f"| {count} | {np.median(listen):.1f} | {np.percentile(listen, 99):.1f} "
            f"| {np.median(speak):.1f} | {np.percentile(speak, 99):.1f} "
            f"| {got['graphs']:.0%} | {got['vram'] / GIB:.1f} | {got['loaded']:.0f} |",
            flush=True,
        )
    print(f"\nStages of two SPEAK units with {count} sessions, each batch waited for:\n")
    print("| stage | batches | ms each | ms in all |\n|---|---|---|---|")
    for name, times in sorted(bench.stages.items(), key=lambda item: -sum(item[1])):
        print(f"| {name} | {len(times)} | {np.median(times):.2f} | {sum(times):.0f} |")
    if on_gpu:
        print(f"\nA unit of {count} sessions at {args.context // 2} tokens against {card}:\n")
        ceilings = Card(args.tbps, args.tflops)
        print("\n".join(roofline(bench.network, ceilings, sessions=count, text=args.context // 2)))


if __name__ == "__main__":
    main()
