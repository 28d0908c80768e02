# A hall for agents of every wire: docker build -t keep-server . && docker run -d -p 9009:9009 keep-server
# WebSocket agents are served too: add -p 6667:6667. What must survive is in the volume /data.
# compose.yaml runs three nodes of one hall from it.
# Flags of `moothall serve` go after the name of the image; settings may also come as -e MOOTHALL_<NAME>.
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1

# The locked dependencies change less often than the sources, so they come first.
WORKDIR /opt/moothall
COPY requirements/cluster.lock requirements/cluster.lock
RUN python -m pip install --require-hashes -r requirements/cluster.lock

COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY tools/package_page.py tools/package_page.py
RUN python -m pip install --no-deps --no-build-isolation .

RUN useradd --system --uid 10001 --no-create-home --home-dir /data hall && install -d -o hall -g hall -m 0700 /data
USER hall
WORKDIR /data
VOLUME /data

EXPOSE 9009 6667
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["moothall", "health", "--timeout", "3"]
ENTRYPOINT ["moothall", "serve", "--host", "0.0.0.0", "--data-dir", "/data"]
