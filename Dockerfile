# The image of isthmus controller, and of every other command. The base images are arguments, which may name a registry and a
# digest; the image is as the distroless ones are: the binary and the root certificates, no distribution, no shell, no root.
#
#   docker build -t isthmus:latest .
#   docker build --build-arg GO=golang@sha256:… --build-arg BASE=distroless-static@sha256:… -t isthmus:latest .
ARG GO=golang:1.26
ARG BASE=scratch

FROM ${GO} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /isthmus ./cmd/isthmus

FROM ${BASE}
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /isthmus /isthmus
USER 65532:65532
ENTRYPOINT ["/isthmus"]
