# fedlapse with PyTorch's CPU version. Without a command it plays the quickstart, as `make demo` does.
FROM python:3.11-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

COPY . /source
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" /source && rm -r /source

RUN useradd --create-home fedlapse
USER fedlapse
WORKDIR /home/fedlapse
ENTRYPOINT ["fedlapse"]
CMD ["compare"]
