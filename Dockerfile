# The base is an argument, so that a mirror or a digest can be given at build time.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check "setuptools>=77,<90"
COPY pyproject.toml README.md LICENSE ./
COPY sidecar ./sidecar
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir /wheels . \
 && /opt/venv/bin/pip install --no-deps --no-cache-dir --disable-pip-version-check /wheels/*.whl \
 && /opt/venv/bin/pip uninstall --yes pip

FROM ${BASE}
LABEL org.opencontainers.image.title="vllm-sidecar" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 9477
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9477/healthz', timeout=3)"]
ENTRYPOINT ["vllm-sidecar"]
CMD ["run", "--listen", "0.0.0.0:9477"]
