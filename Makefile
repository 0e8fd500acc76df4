# Isthmus: "make help" says what there is. Everything needs Go, git and make, and nothing else.

.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-short lint clauses build image plugin-image krew fuzz generate clean

# How long each fuzz target runs in "make fuzz".
FUZZTIME ?= 30s

ifeq (,$(shell command -v go 2>/dev/null))
ifneq (help,$(or $(MAKECMDGOALS),help))
$(error The Go toolchain is missing: there is no "go" in PATH. Install Go 1.26 or newer, and run make again)
endif
endif

# The race detector needs a C compiler; where there is none, the tests run without it.
RACE = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

# The packages whose tests may all run at the same time, and those that start clusters, of which two run at a time.
UNIT = $$(go list ./... | grep -v '/test/')
E2E = ./test/...

help: ## say what there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## see objects cross between two real control planes on this machine
	@echo "Compiling the demo (the first time this takes some minutes)."
	@go run ./test/progress build -o bin/demo ./test/demo
	@exec bin/demo

test: ## run all tests: unit, tables, properties, fuzz seeds, and end to end on real control planes
	@echo "Compiling the control planes' launcher."
	@go run ./test/progress build -o bin/controlplane ./cmd/controlplane
	@bin/controlplane build --all
	@echo "Compiling everything$(if $(RACE),, (without the race detector: there is no C compiler))."
	@go run ./test/progress build $(RACE) $(UNIT)
	@# What fails by the timing of a busy machine alone passes when it runs again by itself; the last line says which did.
	@go run ./test/progress test -rerun 8 $(RACE) -timeout=20m $(UNIT)
	@echo "End to end, on real control planes."
	@go run ./test/progress build ./cmd/... ./test/...
	@# As the image of the vCluster plugin has it; where there is no C compiler, all is compiled so anyway.
	@CGO_ENABLED=0 go run ./test/progress build -o bin/plugin ./cmd/isthmus
	@go run ./test/progress test -rerun 8 -p=2 -parallel=3 -timeout=45m $(E2E)
	@echo "The chart, with Helm, whose packages are compiled the first time."
	@go build -o bin/progress ./test/progress
	@cd test/chart && ../../bin/progress test -timeout=20m .

lint: ## check formatting, go vet, staticcheck and the repository's own rules
	@go run ./test/lint
	go vet ./...
	go tool staticcheck ./...
	@# Its mains are compiled by make test; to vet them would take ten minutes for what Kubernetes' packages say.
	cd controlplane && GOFLAGS= GOWORK=off go list -mod=readonly ./... >/dev/null && GOFLAGS= GOWORK=off go vet -mod=readonly ./internal/...

bench: ## measure Isthmus between two real control planes, beside a bare client and a plain controller
	go run ./test/bench

bench-short: ## count the requests that crossings cost, in a small run of the same; no time is judged
	@mkdir -p bin
	go run ./test/bench -short -out bin/bench-short.json

clauses: ## list the contract's clauses with the tests that prove them
	@go run ./test/clauses

build: ## build bin/isthmus
	@go run ./test/progress build -o bin/isthmus ./cmd/isthmus
	@echo "bin/isthmus"

image: ## build the container image (IMAGE=isthmus:latest BUILDER=docker), with the base images that the Dockerfile names
	$(or $(BUILDER),docker) build -t $(or $(IMAGE),isthmus:latest) .

plugin-image: ## build the image of the vCluster plugin (IMAGE=isthmus-plugin:latest BUILDER=docker)
	$(or $(BUILDER),docker) build --target vcluster-plugin -t $(or $(IMAGE),isthmus-plugin:latest) .

krew: ## build the kubectl plugin's archives and its krew manifest (VERSION=v1.2.3 URL=https://…)
	go run ./config/krew -version "$(VERSION)" -url "$(URL)"

fuzz: ## fuzz each target for a while (FUZZTIME=30s)
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
	  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file" | while read -r target; do \
	    echo "$$(dirname "$$file") $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	  done || exit 1; \
	done

generate: ## regenerate what is generated
	go generate ./...

clean: ## remove what was built here (the control planes stay in the user's cache)
	rm -rf bin
