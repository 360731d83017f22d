# docker build -t kvbound . && docker run --rm -v "$PWD:/data" kvbound       the demo, into ./demo-output
# docker run --rm -v "$PWD:/data" kvbound compare mine.json                  any command on your files
FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir '/src[cp-sat]' && rm -r /src
WORKDIR /data
ENTRYPOINT ["kvbound"]
CMD ["demo"]
