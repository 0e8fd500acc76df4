# The images of Isthmus, from one compilation. The base images are arguments, which may name a registry and a digest:
#
#   docker build -t isthmus:latest .                                          for isthmus controller, and every other command
#   docker build --target vcluster-plugin -t isthmus-plugin:latest .          for vCluster
#   docker build --build-arg GO=golang@sha256:… --build-arg BASE=distroless-static@sha256:… -t isthmus:latest .
ARG GO=golang:1.26
ARG BASE=scratch
ARG PLUGIN_BASE=busybox:stable

FROM ${GO} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -ldflags "-s -w" -o /isthmus ./cmd/isthmus

# The plugin of vCluster. Its init container runs "sh -c 'cp -r /plugin /plugins/NAME'", and vCluster then starts
# /plugins/NAME/plugin: so /plugin is a folder, and beside it there have to be sh and cp.
FROM ${PLUGIN_BASE} AS vcluster-plugin
COPY --from=build /isthmus /plugin/plugin
USER 65532

# Everything else, as distroless images are: the binary and the root certificates, no distribution, no shell, no root.
FROM ${BASE} AS isthmus
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /isthmus /isthmus
USER 65532:65532
ENTRYPOINT ["/isthmus"]
