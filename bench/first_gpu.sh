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
pytest='import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main())'
tests=tests/unit/inference_worker/engines/minicpmo

# Imported by the engine, but not part of an installation of torch and transformers.
missing="annotated-types cffi orjson pybase64 pycparser pydantic pydantic-core soundfile soxr structlog typing-extensions typing-inspection"

# What to leave out, in turn, if nothing could be measured with all of it.
less=("" "--eager --vocoder-graphs 0" "--eager --vocoder-graphs 0 --kernels torch --one-stream")

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

# Writes everything that the call prints to a file too: a terminal may keep the end only.
log_to() {
    exec > >(tee "$out/$1") 2>&1
    tee=$!
    trap finish_log EXIT
    echo "== $(date -u +%FT%TZ), limit $limit s"
    nvidia-smi 2>/dev/null || echo "no nvidia-smi"
    "$python" -c 'import sys
from importlib.metadata import version
print("python", sys.version.split()[0], *(f"{name} {version(name)}" for name in ("torch", "triton", "transformers", "numpy")))' ||
        echo "a package is missing"
}

# A process that was left behind may hold the log open, so the wait has an end.
finish_log() {
    exec >&- 2>&-
    for _ in {1..50}; do
        kill -0 "$tee" 2>/dev/null || return 0
        sleep 0.1
    done
}

left() {
    echo $((limit - SECONDS))
}

# Runs the bench until the time of the call is over; finished rows are in the file in any case.
bench() {
    local name=$1 file=$out/$1.json status=0
    shift
    if [ "$(left)" -lt 30 ]; then
        echo "no time left for $name"
        return
    fi
    echo "== $name $* (at $SECONDS s)"
    rm -f "$file"
    # It ends by itself before the limit, with its table of stages. The signal is for one that hangs.
    timeout --signal=INT --kill-after=10 "$(left)" "$python" bench/gpu_duplex.py --json "$file" \
        --seconds "$(($(left) - 20))" "$@" || status=$?
    [ "$status" = 0 ] || echo "$name ended with status $status"
}

# The same, with less of the engine if it measured nothing.
bench_something() {
    local options
    for options in "${less[@]}"; do
        # shellcheck disable=SC2086  # several options
        bench "$@" $options
        if grep -qs '"p50"' "$out/$1.json"; then
            return
        fi
    done
}

case ${1:-} in
prepare) prepare ;;
1)
    shift
    use_packages
    log_to call_1.txt
    # Without the settings of pyproject.toml and tests/conftest.py, which need other packages and Redis.
    # An interrupt prints the failures so far, also where a parent ignores interrupts.
    timeout --signal=INT --kill-after=10 240 "$python" -c "$pytest" -c /dev/null --rootdir . \
        --confcutdir "$tests" --import-mode=importlib -p no:cacheprovider -o markers=gpu -v -rs \
        --tb=short "$tests/test_gpu.py" || echo "test_gpu.py failed"
    bench_something all_speak --sessions 32,16 --speaking 1 "$@"
    bench_something in_step --no-paced --sessions 32,1,8 "$@"
    compgen -G "$out/*.json" >/dev/null || { echo "no results in $out"; exit 1; }
    ;;
2)
    shift
    use_packages
    log_to call_2.txt
    # Equal contexts share an engine, in this order: those with many sessions first, because an engine takes
    # a minute to start. Four sessions need the most seconds for 200 units.
    bench_something paced --sessions 64,32,48,16,24,8,1,4 "$@"
    results=$(compgen -G "$out/*.json" | grep -v '/costs.json$' || true)
    [ -n "$results" ] || { echo "no results in $out"; exit 1; }
    # shellcheck disable=SC2086  # a name per line
    "$python" bench/gpu_report.py $results --svg "$out/latency.svg" --costs "$out/costs.json" |
        tee "$out/table.md"
    ;;
3)
    shift
    use_packages
    log_to call_3.txt
    # One archive of all results, because tools that copy files back may limit their number.
    kept=$out
    out=$(mktemp -d)
    compare() {
        bench "$1" --sessions 32,1 --units 60 "${@:2}"
        compgen -G "$out/*.json" >/dev/null || return 0
        tar -C "$out" -czf "$kept/compare.tar.gz" .
        "$python" bench/gpu_report.py "$out"/*.json >"$kept/compare.md"
    }
    compare default "$@"
    compare pictures --frames "$@"
    compare causal --vocoder-kind causal "$@"
    compare one_stream --one-stream "$@"
    compare fp8 --quantize fp8 "$@"
    compare vocoder_eager --vocoder-graphs 0 "$@"
    compare int8 --quantize int8 "$@"
    compare float32 --float32 "$@"
    compare vocoder_16 --vocoder-graphs 16 "$@"
    rm -rf "$out"
    [ -s "$kept/compare.md" ] || { echo "no results"; exit 1; }
    cat "$kept/compare.md"
    ;;
*)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac
