# The service in a container:
#   docker build --build-arg TORCH_INDEX=(the index of PyTorch's CPU builds) -t capplan .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/token.txt:/run/secrets/capplan-token:ro" capplan
# PyTorch's CPU build suffices: models are traced on the meta device, and no GPU is needed.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY capplan capplan
COPY gpu_specs gpu_specs
# The address of PyTorch's CPU builds, as its installation page names it. Without it pip's own index decides, which for
# some platforms holds only builds with CUDA: they work as well, and take gigabytes.
ARG TORCH_INDEX=
RUN python -m venv /opt/capplan \
 && grep -E '^(torch|torchvision)==' constraints.txt > torch.txt \
 && /opt/capplan/bin/pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -r torch.txt \
 && /opt/capplan/bin/pip install --no-cache-dir -c constraints.txt '.[zoo,report,serve]'

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home capplan && install -d -o capplan /var/cache/capplan
COPY --from=build /opt/capplan /opt/capplan
ENV PATH=/opt/capplan/bin:$PATH XDG_CACHE_HOME=/var/cache OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz')"]
# Beyond the loopback address a token is needed: mount one, or say --insecure where a proxy controls access.
ENTRYPOINT ["capplan", "serve", "--host", "0.0.0.0"]
CMD ["--token-file", "/run/secrets/capplan-token"]
