# One file, three images: `service` (edge, recorder, cleanup), `worker` (engine local), `worker-gpu` (engine
# minicpmo). They share the layers of `packages`; only `worker-gpu` contains torch. Frequent
# changes come last, so that a change of Antiphon's code downloads nothing.

ARG PYTHON_IMAGE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${PYTHON_IMAGE} AS tools
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source
RUN python3 -m venv /tools

FROM tools AS pages
COPY web web
COPY tools/nodejs.py tools/web_pages.py tools/
RUN mkdir edge && /tools/bin/python tools/web_pages.py build

FROM tools AS wheel
COPY . .
COPY --from=pages /source/edge/pages edge/pages
# The pages are built already, so that this step does not need Node.js.
RUN ANTIPHON_WITHOUT_PAGES=1 /tools/bin/pip wheel --quiet --no-deps --wheel-dir /wheels .

# Writes the packages of uv.lock, with all that they need, to /needs/service.txt, worker.txt, worker-gpu.txt.
FROM tools AS needs
COPY pyproject.toml uv.lock tools/uv_program.py ./
RUN /tools/bin/pip install --quiet uv==$(sed -n 's/^VERSION = "\(.*\)"/\1/p' uv_program.py) \
    && mkdir /needs \
    && packages() { /tools/bin/uv export --quiet --frozen --no-emit-project --extra server "$@"; } \
    && packages --output-file /needs/service.txt \
    && packages --output-file /needs/worker.txt --extra local --group weights \
    && packages --output-file /needs/worker-gpu.txt --extra minicpmo --extra token2wav --group vocoder

FROM ${PYTHON_IMAGE} AS packages
ENV PATH=/opt/antiphon/bin:$PATH \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ONLY_BINARY=:all: \
    PIP_PYTHON=/opt/antiphon \
    PYTHONUNBUFFERED=1 \
    ANTIPHON_LOG_FORMAT=json \
    ANTIPHON_DATA_DIR=/data
RUN groupadd --gid 10001 antiphon \
    && useradd --uid 10001 --gid antiphon --no-create-home --home-dir /data antiphon \
    && install --directory --owner antiphon --group antiphon /data \
    && python3 -m venv --without-pip /opt/antiphon
WORKDIR /data
ENTRYPOINT ["antiphon"]
RUN --mount=type=bind,from=needs,source=/needs,target=/needs \
    pip install --quiet --no-deps --requirement /needs/service.txt
COPY deploy/healthy /usr/local/bin/

FROM packages AS service
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --quiet --no-deps /wheels/*.whl
USER antiphon

FROM packages AS worker
# The language model's library is linked to GCC's OpenMP.
RUN apt-get -qq update \
    && apt-get -qq install --yes --no-install-recommends libgomp1 >/dev/null \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=needs,source=/needs,target=/needs \
    pip install --quiet --no-deps --requirement /needs/worker.txt
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --quiet --no-deps /wheels/*.whl
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
RUN --mount=type=bind,from=needs,source=/needs,target=/needs \
    pip install --quiet --no-deps --no-binary minicpmo-utils --requirement /needs/worker-gpu.txt
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --quiet --no-deps /wheels/*.whl
USER antiphon
CMD ["worker", "--engine", "minicpmo", "--model-path", "/models/MiniCPM-o-4_5"]
