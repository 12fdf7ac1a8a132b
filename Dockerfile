# The base is an argument, so that a mirror can be named, or a digest, which no new push can change:
#   --build-arg BASE=python:3.11.15-slim-bookworm@sha256:...
# (`docker buildx imagetools inspect python:3.11.15-slim-bookworm` prints it, the one of all platforms.)
# Every dependency has wheels for amd64 and arm64, so that nothing is compiled on either.
ARG BASE=python:3.11.15-slim-bookworm

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements.lock requirements-image.lock ./
# What is shipped has no pip in it; what builds stands apart and stays behind.
RUN python -m venv --without-pip /opt/venv \
 && python -m pip --python /opt/venv/bin/python install --no-compile --only-binary :all: --require-hashes -r requirements.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --only-binary :all: --require-hashes -r requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY sidecar ./sidecar
# Bytecode is shipped, 9 of the 50 MB that we add: nothing can be written where we run, and to compile at
# each start would take 0.7 s of CPU, which at a limit of 100m are 7 s. It does not ask for its source's time.
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/venv/bin/python install --no-compile --no-deps /wheels/*.whl \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib \
 && /opt/build/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
    --output-format JSON --output-file /sbom.cdx.json /opt/venv/bin/python

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vllm-sidecar" \
      org.opencontainers.image.description="Runs beside one vLLM server and names every time window" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
# In a network of its own a container is asked at its own address, not at the loopback device's.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    VLLM_SIDECAR_LISTEN=0.0.0.0:9477
# Nobody installs anything here any more. A volume for the state takes on the folder's mode, as whichever
# user we are made to run.
RUN python -m pip uninstall --yes --root-user-action=ignore pip setuptools wheel \
 && rm -rf /usr/local/lib/python3*/ensurepip \
 && mkdir -m 1777 /var/lib/vllm-sidecar
COPY --from=build /sbom.cdx.json /usr/share/vllm-sidecar/sbom.cdx.json
COPY --from=build /opt/venv /opt/venv
USER 10001:10001
EXPOSE 9477
# Not by urllib, which would ask the proxy of an HTTP_PROXY.
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s \
  CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 9477, timeout=3); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["vllm-sidecar"]
CMD ["run"]
