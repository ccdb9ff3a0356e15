"""What a unit of MiniCPM-o costs: random weights at the real sizes on a GPU, the tiny ones on a CPU.

    python bench/gpu_duplex.py                            # on a GPU: 1 to 64 sessions
    python bench/gpu_duplex.py --sessions 32 --speaking 1 --json result.json
    python bench/gpu_duplex.py --no-paced                 # all units start together

No checkpoint is needed. The sessions are those of a full worker: the context is at least half full,
the repetition penalty sees 512 different tokens, the log-mel covers 20 to 30 s. A session listens or
speaks for 4 units at a time. The engine draws every token, also the one that says to listen; a script
then replaces it. A SPEAK unit has `--tokens` tokens, 25 codes, and a second of Token2wav if its
package is installed.

Each session sends a unit per second at a phase of its own, with jitter. A unit counts from then to
its sound, or to the decision to listen, and misses its deadline after 1 s. A session that is alone
waits for no other, so it sends its next unit at once. A table of Markdown is printed, and `--json`
writes what `bench/gpu_report.py` makes tables and a plot of.
"""

import argparse
import gc
import json
import math
import random
import sys
import threading
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import psutil
import torch
import transformers

from antiphon.inference_worker.engines.common.pictures import read_picture
from antiphon.inference_worker.engines.minicpmo.config import (
    EngineOptions,
    KernelChoice,
    Quantization,
)
from antiphon.inference_worker.engines.minicpmo.conversations.duplex import DuplexConversation
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import SpeechContext
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import AudioInput
from antiphon.inference_worker.engines.minicpmo.model.memory import check_memory
from antiphon.inference_worker.engines.minicpmo.preprocess.images import slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SpeechSettings
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import Token2WavVocoder
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import VoiceKind
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.config import DuplexConfig
from duplex_callers import TURN_UNITS, Caller, Script, ScriptedSampler, due_times, noise
from gpu_report import HEADER, table_row
from random_model import TINY, config_of, noise_picture, random_network
from random_voice import random_vocoder, random_voice
from roofline import Card, roofline

STARTED = psutil.Process().create_time()
DEADLINE_MS = 1000
WARM_UP_UNITS = 3
"""Units at the start of a measurement that are not counted."""

MIN_UNITS = 20
"""Units of each session: an overload needs some seconds to show."""

SMALLER_CONTEXTS = (4096, 2048, 1024)
"""Tried in this order if so many sessions do not fit into the memory with `--context`."""


class Bench:
    """A network, and sessions on it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.on_gpu = self.device.type == "cuda"
        self.args = args
        self.sizes = args.sizes or ("real" if self.on_gpu else "tiny")
        self.config = config_of(self.sizes)
        self.tokenizer = Tokenizer(TINY)
        torch.backends.cuda.matmul.allow_tf32 = not args.float32
        self.vocoder_error: str | None = None
        self.vocoder = self.load_vocoder()
        self.options = {count: self.served_options(count) for count in args.sessions}
        self.network = random_network(self.config, self.device, args.kernels, args.quantize)
        settings = self.config.slice_config
        frames = [noise_picture()] if args.frames else []
        self.pictures = [slice_image(read_picture(frame), settings, 1) for frame in frames]
        self.stages: dict[str, list[float]] = {}
        """Milliseconds of each batch of two SPEAK units of the last measurement, by type."""

    def load_vocoder(self) -> Token2WavVocoder | None:
        """None if its package is missing, or if it does not load: the units are measured without it."""
        sizes = self.engine_options(max(self.args.sessions)).vocoder_graph_sizes
        try:
            kind = VoiceKind[self.args.vocoder_kind.upper()]
            seconds = self.args.voice_seconds
            return random_vocoder(self.sizes, self.device, seconds, sizes, kind=kind)
        except Exception as error:  # noqa: BLE001  # a first run on a new machine
            self.drop_vocoder(error)
            return None

    def drop_vocoder(self, error: Exception) -> None:
        """Measure the following units without sound, and report why."""
        traceback.print_exception(error)
        self.vocoder, self.vocoder_error = None, f"{type(error).__name__}: {error}"

    def served_options(self, count: int) -> EngineOptions | None:
        """The options with which a worker serves `count` sessions; None if they do not fit."""
        asked = self.args.context
        for context in (asked, *(size for size in SMALLER_CONTEXTS if size < asked)):
            options = self.engine_options(count, context_tokens=context)
            try:
                check_memory(self.config, options, self.device, voices=self.vocoder is not None)
            except EngineLoadError:
                continue
            return options
        return None

    def engine_options(self, count: int, **more: Any) -> EngineOptions:
        """Those of a worker with `count` slots."""
        if self.args.vocoder_graphs is not None:
            more["vocoder_graphs"] = self.args.vocoder_graphs
        return EngineOptions(
            slots=count,
            voice_seconds=self.args.voice_seconds,
            quantize=self.args.quantize,
            cuda_graphs=not self.args.eager,
            **more,
        )

    def run(self) -> Iterator[dict[str, Any]]:
        """A result for each number of sessions. Equal sizes share an engine for the largest number.

        A row that cannot be measured says why, and the others follow.
        """
        groups: dict[int | None, list[int]] = defaultdict(list)
        for count, options in self.options.items():
            groups[options.context_tokens if options else None].append(count)
        for context, counts in groups.items():
            if context is None:
                yield from (not_measured(count, "does not fit") for count in counts)
                continue
            options = self.options[max(counts)]
            assert options is not None
            left = list(counts)
            try:
                for row in self.group(options, counts):
                    left.remove(row["sessions"])
                    yield row
            except Exception as error:  # noqa: BLE001  # a first run on a new machine
                traceback.print_exception(error)
                yield from (not_measured(count, type(error).__name__, str(error)) for count in left)

    def group(self, options: EngineOptions, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
        with self.crowd(options) as crowd:
            for count in counts:
                yield self.measured(crowd, count)

    def measured(self, crowd: "Crowd", count: int) -> dict[str, Any]:
        needed = units_of(count, self.args) * (1.0 if self.args.paced and count > 1 else 0.2)
        if time.time() - STARTED + needed > self.args.seconds:
            return not_measured(count, "no time left")
        return crowd.measure(count)

    @contextmanager
    def crowd(self, options: EngineOptions) -> "Iterator[Crowd]":
        """An engine with a session in each slot."""
        gc.collect()  # frees the caches of the last one
        if self.on_gpu:
            torch.cuda.empty_cache()
        crowd = Crowd(self, options)
        try:
            crowd.prepare()
            yield crowd
        finally:
            crowd.engine.close()

    def taken(self) -> int:
        """Bytes of the GPU that are not free, including graphs."""
        if not self.on_gpu:
            return 0
        free, total = torch.cuda.mem_get_info()
        return int(total - free)

    def about(self) -> dict[str, Any]:
        """What the results depend on."""
        return {
            "date": datetime.now(UTC).date().isoformat(),
            "card": torch.cuda.get_device_name() if self.on_gpu else "CPU",
            "sizes": self.sizes,
            "kernels": "triton" if self.network.llm.model.kernels.ragged else "torch",
            "vocoder": self.vocoder is not None,
            "vocoder_error": self.vocoder_error,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": sys.version.split()[0],
            "arguments": {name: getattr(self.args, name) for name in REPORTED},
        }


REPORTED = (
    "quantize",
    "one_stream",
    "float32",
    "vocoder_graphs",
    "vocoder_kind",
    "paced",
    "units",
    "speaking",
    "tokens",
    "jitter_ms",
    "voice_seconds",
    "frames",
    "eager",
    "cudnn",
    "seed",
)


class Crowd:
    """The sessions of one engine, each with a thread as in a worker."""

    def __init__(self, bench: Bench, options: EngineOptions) -> None:
        self.bench, self.args, self.options = bench, bench.args, options
        began, ids = time.perf_counter(), bench.tokenizer.ids
        self.sampler = ScriptedSampler(ids, bench.tokenizer.forbidden, options.fidelity)
        self.sampler.scripts = {}
        self.runner = ModelRunner(
            bench.network,
            self.sampler,
            slots=options.slots,
            context=options.context_tokens,
            speech_context=options.speech_tokens,
            invariant=False,
            cuda_graphs=bench.on_gpu and not self.args.eager,
            speech_stream=bench.on_gpu and not self.args.one_stream,
        )
        if self.args.cudnn:
            torch.backends.cuda.enable_cudnn_sdp(True)
        self.runner.enter_thread()
        self.runner.capture_graphs()
        if bench.on_gpu:
            self.runner.warm_up()
        self.load_s = time.perf_counter() - began
        self.engine = Engine(self.runner)
        self.callers = [self.caller(slot) for slot in range(options.slots)]

    def caller(self, slot: int) -> Caller:
        bench, args = self.bench, self.args
        source, audio = random.Random(f"{args.seed} {slot}"), bench.config.audio_config
        speech = SpeechContext(
            slot=slot,
            capacity=self.options.speech_tokens,
            end_code=bench.config.tts_config.end_code,
            settings=SpeechSettings(),
            codes_per_step=self.engine.codes_per_step,
        )
        conversation = DuplexConversation(
            slot,
            bench.tokenizer,
            AudioInput(slot=slot, capacity=audio.max_source_positions),
            speech,
            config=DuplexConfig(force_listen_count=0),
            options=self.options,
        )
        ids = bench.tokenizer.ids
        # The small tokenizer of the tests decodes only its own tokens; 9 to 93 are single letters.
        words = range(9, 94) if bench.sizes == "tiny" else range(1000, bench.config.vocab_size)
        script = Script(ids, words, args.speaking, args.tokens, source)
        second = noise(np.random.default_rng(slot))
        return Caller(conversation, script, self.sampler, self.options.context_tokens, second)

    def prepare(self) -> None:
        """Clone the voices and fill the contexts."""
        engine = self.engine
        try:
            self.clone_voices()
        except Exception as error:  # noqa: BLE001  # the other parts of a unit can be measured
            self.bench.drop_vocoder(error)
        with ThreadPoolExecutor(len(self.callers)) as threads:
            list(threads.map(lambda caller: engine.run(caller.prepare()), self.callers))

    def clone_voices(self) -> None:
        vocoder = self.bench.vocoder
        if vocoder is not None:
            vocoder.warm_up(len(self.callers))
            for caller in self.callers:
                caller.voice = random_voice(vocoder, self.args.voice_seconds)

    def measure(self, count: int) -> dict[str, Any]:
        """Units of `count` sessions: latencies, missed deadlines and how the engine ran them."""
        callers = self.callers[:count]
        before, units = self.runner.graph_runs(), units_of(count, self.args)
        began = time.perf_counter()
        run = self.paced if self.args.paced and count > 1 else self.in_step
        results = run(callers, units)
        lasted, ran = time.perf_counter() - began, self.runner.graph_runs()
        replayed, eager = (after - first for after, first in zip(ran, before, strict=True))
        counted = [unit for units in results for unit in units[WARM_UP_UNITS:]]
        self.bench.stages = self.stages(callers)
        return {
            "sessions": count,
            "fits": True,
            "context": self.options.context_tokens,
            "slots": self.options.slots,
            "codes_per_step": self.engine.codes_per_step,
            "listen": summary([ms for speaks, ms in counted if not speaks]),
            "speak": summary([ms for speaks, ms in counted if speaks]),
            "missed_per_1000": 1000 * sum(ms > DEADLINE_MS for _, ms in counted) / len(counted),
            "seconds": round(lasted, 1),
            "graphs": replayed / max(1, replayed + eager),
            "load_s": round(self.load_s, 1),
            "vram_bytes": self.bench.taken(),
            "stages_ms": {
                name: {"batches": len(times), "median": float(np.median(times)), "sum": sum(times)}
                for name, times in self.bench.stages.items()
            },
        }

    def paced(self, callers: Sequence[Caller], units: int) -> list[list[tuple[bool, float]]]:
        """Whether each unit spoke, and its milliseconds from its due time."""
        source, start = random.Random(self.args.seed), time.perf_counter() + 0.2
        jitter_s = self.args.jitter_ms / 1000
        due = [list(due_times(units, jitter_s=jitter_s, source=source)) for _ in callers]

        def all_units(caller: Caller, moments: list[float]) -> list[tuple[bool, float]]:
            done = []
            for moment in moments:
                time.sleep(max(0.0, start + moment - time.perf_counter()))
                done.append(self.unit(caller, caller.script.next_unit(), start + moment))
            return done

        with ThreadPoolExecutor(len(callers)) as threads:
            return list(threads.map(all_units, callers, due))

    def in_step(
        self, callers: Sequence[Caller], units: int, *, speak: bool = False
    ) -> list[list[tuple[bool, float]]]:
        """The same with units that all start together; with `speak`, they all speak one turn."""
        together = threading.Barrier(len(callers))

        def all_units(caller: Caller) -> list[tuple[bool, float]]:
            done = []
            for unit in range(units):
                together.wait()
                tokens = (
                    caller.script.spoken_unit(ends_turn=unit == units - 1)
                    if speak
                    else caller.script.next_unit()
                )
                done.append(self.unit(caller, tokens, time.perf_counter()))
            return done

        def or_abort(caller: Caller) -> list[tuple[bool, float]]:
            try:
                return all_units(caller)
            except BaseException:
                together.abort()  # or the others would wait forever
                raise

        with ThreadPoolExecutor(len(callers)) as threads:
            return list(threads.map(or_abort, callers))

    def unit(self, caller: Caller, tokens: deque[int], due: float) -> tuple[bool, float]:
        spoke = caller.run_unit(self.engine, self.bench.vocoder, tokens, self.bench.pictures)
        latency = (time.perf_counter() - due) * 1000
        self.engine.run(caller.conversation.finalize())
        return spoke, latency

    def stages(self, callers: Sequence[Caller]) -> dict[str, list[float]]:
        """Two SPEAK units in step, and the milliseconds of each batch by the type of its steps."""
        found: dict[str, list[float]] = defaultdict(list)
        run, settle = self.runner.run, self.settle

        def timed(steps: Any) -> Any:
            settle()
            began = time.perf_counter()
            answers = run(steps)
            settle()
            found[type(steps[0]).__name__].append((time.perf_counter() - began) * 1000)
            return answers

        for caller in callers:
            caller.synthesis_ms.clear()
        beside, self.runner.starts_codes = self.runner.starts_codes, False
        self.runner.run = timed  # type: ignore[method-assign]
        try:
            self.in_step(callers, 2, speak=True)
        finally:
            del self.runner.run  # uncovers the method
            self.runner.starts_codes = beside
        waits = [wait for caller in callers for wait in caller.synthesis_ms]
        return found | ({"Token2wav, wait of a session": waits} if waits else {})

    def settle(self) -> None:
        if self.bench.on_gpu:
            torch.cuda.synchronize()


def not_measured(sessions: int, why: str, error: str = "") -> dict[str, Any]:
    return {"sessions": sessions, "fits": False, "why": why, "error": error}


def units_of(sessions: int, args: argparse.Namespace) -> int:
    """Units of each session, so that `--units` of each kind are counted over all sessions."""
    rarest = min((share for share in (args.speaking, 1 - args.speaking) if share), default=1.0)
    # A session may begin and end within a turn.
    wanted = args.units / sessions / rarest + 2 * TURN_UNITS
    return WARM_UP_UNITS + int(max(min(args.units, MIN_UNITS), wanted))


def summary(times: list[float]) -> dict[str, float] | None:
    """How many units, their percentiles and the slowest one; None for no units."""
    if not times:
        return None
    p50, p90, p99 = (float(np.percentile(times, part)) for part in (50, 90, 99))
    return {"units": len(times), "p50": p50, "p90": p90, "p99": p99, "max": max(times)}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    most = DuplexConfig().max_new_speak_tokens_per_chunk - 1
    parser.add_argument("--sessions", type=numbers, help="such as 1,8,32 (default: 1 to 64)")
    parser.add_argument(
        "--units", type=int, default=200, help="of each kind, over all sessions of a row"
    )
    parser.add_argument(
        "--paced", action=argparse.BooleanOptionalAction, default=True, help="or all in step"
    )
    parser.add_argument("--speaking", type=float, default=0.5, help="share of the turns")
    parser.add_argument("--tokens", type=int, default=most, help="of a SPEAK unit")
    parser.add_argument("--jitter-ms", type=float, default=60.0, help="of the start of a unit")
    parser.add_argument(
        "--voice-seconds",
        type=int,
        default=15,
        choices=range(1, 16),
        metavar="1-15",
        help="of the reference audio",
    )
    parser.add_argument(
        "--context", type=int, default=EngineOptions().context_tokens, help="tokens per slot"
    )
    parser.add_argument("--frames", action="store_true", help="a picture in every unit")
    parser.add_argument("--sizes", choices=["real", "tiny"], help="instead of by device")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    parser.add_argument(
        "--kernels",
        default="auto",
        choices=get_args(KernelChoice),
        help="between a decoder layer's products, on a GPU (auto: triton where it compiles)",
    )
    parser.add_argument(
        "--quantize", choices=get_args(Quantization), default="none", help="8-bit weights"
    )
    parser.add_argument(
        "--one-stream", action="store_true", help="codes on the stream of the language model"
    )
    parser.add_argument("--float32", action="store_true", help="the vocoder without TF32")
    parser.add_argument(
        "--vocoder-graphs",
        type=int,
        help="largest number of sessions with CUDA graphs of the vocoder, 0 to 32",
    )
    parser.add_argument(
        "--vocoder-kind",
        choices=[kind.name.lower() for kind in VoiceKind],
        default=VoiceKind.CROSSFADE.name.lower(),
        help="that of the published checkpoint (crossfade), or of release 1.0.7 (causal)",
    )
    parser.add_argument("--cudnn", action="store_true", help="with cuDNN's attention")
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="begin no row that would end later than so many seconds after the start",
    )
    parser.add_argument("--seed", type=int, default=0, help="of phases, jitter and tokens")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument(
        "--tbps", type=float, default=4.8, help="memory bandwidth, TB/s (H200: 4.8)"
    )
    parser.add_argument("--tflops", type=float, default=989.0, help="bfloat16 TFLOP/s (H200: 989)")
    args = parser.parse_args()
    if not 1 <= args.tokens <= most:
        parser.error(f"--tokens must be 1 to {most}")
    if not 0 <= args.speaking <= 1:
        parser.error("--speaking must be 0 to 1")
    default = "1,4,8,16,24,32,48,64" if torch.cuda.is_available() else "1,4"
    args.sessions = args.sessions or numbers(default)
    return args


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    args = parse()
    bench = Bench(args)
    about = bench.about()
    voice = f"with Token2wav and voices of {args.voice_seconds} s"
    if bench.vocoder is None:
        voice = f"without Token2wav ({bench.vocoder_error or 'its package is not installed'})"
    print(f"{bench.sizes} sizes with random weights on {about['card']}, torch {torch.__version__},")
    print(f"{voice}\n")
    if not bench.on_gpu:
        print("No GPU here: these numbers say that the bench runs, and nothing about the model.\n")
    print(HEADER)
    rows: list[dict[str, Any]] = []
    for row in bench.run():
        rows.append(row)
        about = bench.about()  # the vocoder may have been dropped
        print(table_row(about, row), flush=True)
        if args.json:  # after each row: a run that is cut off leaves the others
            args.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    print_stages(bench, rows)
    if not any(row["fits"] for row in rows):
        sys.exit(f"nothing was measured: {', '.join(sorted({row['why'] for row in rows}))}")


def print_stages(bench: Bench, rows: Sequence[dict[str, Any]]) -> None:
    """The stages of the last row, and on a GPU the lower bound for them."""
    last = next((row for row in reversed(rows) if row["fits"]), None)
    if last is None:
        return
    count, text = last["sessions"], last["context"] * 3 // 4
    print(f"\nStages of two SPEAK units of {count} sessions in step, each batch waited for:\n")
    print("| stage | batches | ms each | ms in all |\n|---|---|---|---|")
    for name, stage in sorted(last["stages_ms"].items(), key=lambda item: -item[1]["sum"]):
        print(f"| {name} | {stage['batches']} | {stage['median']:.2f} | {stage['sum']:.0f} |")
    if bench.on_gpu:
        args = bench.args
        print(f"\nLower bound of a unit of {count} sessions at {text} tokens:\n")
        card = Card(args.tbps, args.tflops)
        lines = roofline(bench.network, card, sessions=count, text=text, tokens=args.tokens)
        print("\n".join(lines))


if __name__ == "__main__":
    main()
