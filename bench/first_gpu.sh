#!/usr/bin/env bash
# The first measurements of MiniCPM-o on a GPU machine without a network; bench/first_gpu.md explains them.
#   bench/first_gpu.sh prepare            on a machine with a network: fill the folder .gpu
#   bench/first_gpu.sh 1 | 2 | 3 [OPTION...]  on the GPU machine; options of bench/gpu_duplex.py
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${FIRST_GPU_FOLDER:-.gpu}")
out=${OUT:-$folder/results}
python=${PYTHON:-python3}
limit=${FIRST_GPU_SECONDS:-580}
tests=tests/unit/inference_worker/engines/minicpmo

# Imported by the engine, but not part of an installation of torch and transformers.
missing="annotated-types cffi orjson pybase64 pycparser pydantic pydantic-core soundfile soxr structlog typing-extensions typing-inspection"

prepare() {
    local version=${GPU_PYTHON:-3.12}
    rm -rf "$folder/modules" "$folder/site"
    mkdir -p "$folder/modules"
    "$python" - $missing >"$folder/packages.txt" <<'PYTHON'
import sys, tomllib
lock = {p["name"]: p["version"] for p in tomllib.load(open("uv.lock", "rb"))["package"]}
print(*(f"{name}=={lock[name]}" for name in sys.argv[1:]), sep="\n")
PYTHON
    # Installs what is in the list and nothing else: torch, numpy and others are on the GPU machine.
    "$python" tools/uv_program.py pip sync --quiet --only-binary :all: --target "$folder/site" \
        --python-version "$version" --python-platform x86_64-manylinux_2_28 "$folder/packages.txt"
    echo "$version" >"$folder/python-version"
    if [ -d .venv/share/token2wav/stepaudio2 ]; then
        cp -rL .venv/share/token2wav/stepaudio2 "$folder/modules/"
    else
        echo "no Token2wav: 'make test' installs it; the units will be measured without sound" >&2
    fi
    du -sh "$folder"
}

use_packages() {
    local wanted found
    if [ -f "$folder/python-version" ]; then
        wanted=$(<"$folder/python-version")
        found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        if [ "$wanted" != "$found" ]; then
            echo "the packages in $folder are for Python $wanted, but $python is $found:" \
                "run 'GPU_PYTHON=$found bench/first_gpu.sh prepare', or name another interpreter in PYTHON" >&2
            exit 1
        fi
    fi
    export PYTHONPATH="$PWD:$folder/site:$folder/modules:$PWD/tests"
    export PYTHONUNBUFFERED=1
    mkdir -p "$out"
}

# Runs the bench until the time of the call is over; finished rows are in the file in any case.
bench() {
    local name=$1 left=$((limit - SECONDS))
    shift
    if [ "$left" -lt 30 ]; then
        echo "no time left for $name" >&2
        return
    fi
    echo "== $name"
    timeout --signal=KILL "$left" "$python" bench/gpu_duplex.py --json "$out/$name.json" "$@" ||
        echo "$name ended early" >&2
}

case ${1:-} in
prepare) prepare ;;
1)
    shift
    use_packages
    # Without the settings of pyproject.toml and tests/conftest.py, which need other packages and Redis.
    timeout --signal=KILL 240 "$python" -m pytest -c /dev/null --rootdir . --confcutdir "$tests" \
        --import-mode=importlib -p no:cacheprovider -o markers=gpu -q -rs "$tests/test_gpu.py" 2>&1 |
        tee "$out/test_gpu.txt" || echo "test_gpu.py failed" >&2
    bench in_step --no-paced --sessions 1,8,32 "$@"
    bench all_speak --sessions 16,32 --speaking 1 "$@"
    ;;
2)
    shift
    use_packages
    bench paced "$@"
    compgen -G "$out/*.json" >/dev/null || { echo "no results in $out" >&2; exit 1; }
    "$python" bench/gpu_report.py "$out"/*.json --svg "$out/latency.svg" | tee "$out/table.md"
    ;;
3)
    shift
    use_packages
    bench compare_default --sessions 1,32 "$@"
    bench compare_one_stream --one-stream --sessions 1,32 "$@"
    bench compare_fp8 --quantize fp8 --sessions 1,32 "$@"
    bench compare_int8 --quantize int8 --sessions 1,32 "$@"
    bench compare_float32 --float32 --sessions 1,32 "$@"
    bench compare_vocoder_eager --vocoder-graphs 0 --sessions 1,32 "$@"
    bench compare_vocoder_16 --vocoder-graphs 16 --sessions 1,32 "$@"
    "$python" bench/gpu_report.py "$out"/compare_*.json | tee "$out/compare.md"
    ;;
*)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac
