# vramscope. `make` builds, `make test` tests; both need Go and nothing else.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

GO         ?= go
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# minimal is of gonum.org/v1/plot: it leaves out the kinds of files that nobody asks for, PDF, EPS and TeX.
BUILDFLAGS ?= -trimpath -tags minimal
LDFLAGS    := -s -w -X github.com/vramscope/vramscope/internal/cli.version=$(VERSION)
PKG        ?= ./...
BENCH      ?= .
COUNT      ?= 6
FUZZTIME   ?= 10s
PLATFORMS  ?= linux/amd64 linux/arm64 darwin/arm64 windows/amd64
CHROMIUM   ?= chromium

# What talks to a GPU needs cgo. NVML's functions are looked up when they are called, and so must not be bound before.
GPUENV     := CGO_ENABLED=1 CGO_CFLAGS='-O2 -g -Wno-deprecated-declarations'
GPUFLAGS   := -tags nvml,minimal
GPULDFLAGS := -extldflags=-Wl,-z,lazy
GPUPKG     := ./allocators/driver/cuda ./simulate/gpu ./internal/record

.PHONY: build gpu gpu-test install test short lint bench bench-compare fuzz fidelity cover cross modules screenshots clean help

build: ## bin/vramscope: one static binary without cgo
	CGO_ENABLED=0 $(GO) build $(BUILDFLAGS) -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/vramscope ./cmd/vramscope

gpu: ## bin/vramscope with what uses a GPU: gpu, record, replay --driver cuda; needs a C compiler
	$(GPUENV) $(GO) build $(BUILDFLAGS) $(GPUFLAGS) -buildvcs=false -ldflags '$(LDFLAGS) $(GPULDFLAGS)' -o bin/vramscope ./cmd/vramscope

gpu-test: ## vet and test what uses a GPU, over drivers that need none; on a machine with one, over that too
	$(GPUENV) $(GO) vet $(GPUFLAGS) $(GPUPKG) ./internal/cli
	$(GPUENV) $(GO) test $(GPUFLAGS) -ldflags '$(GPULDFLAGS)' $(GPUPKG)
	$(GPUENV) $(GO) test $(GPUFLAGS) -ldflags '$(GPULDFLAGS)' -run 'GPU|TestScripts/gpu' ./internal/cli

install: ## the same into GOBIN
	CGO_ENABLED=0 $(GO) install $(BUILDFLAGS) -buildvcs=false -ldflags '$(LDFLAGS)' ./cmd/vramscope

test: ## all tests, the linters among them
	$(GO) test $(PKG)

short: ## the tests without the slow ones
	$(GO) test -short $(PKG)

lint: ## gofmt, go vet, staticcheck and the project's own rules
	$(GO) test ./internal/lint

bench: ## benchmarks, COUNT times each, into bin/bench.txt and summed up
	@mkdir -p bin
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | tee bin/bench.txt
	$(GO) tool -modfile=tools/go.mod benchstat bin/bench.txt

bench-compare: ## bin/bench.txt against an older one: make bench-compare OLD=old.txt
	$(GO) tool -modfile=tools/go.mod benchstat $(OLD) bin/bench.txt

fuzz: ## every fuzz target for FUZZTIME
	FUZZTIME='$(FUZZTIME)' tools/fuzz.sh

fidelity: ## the table of predictions against what the real allocator did
	$(GO) test -count 1 -run TestFidelityTable -v ./internal/fidelity

cover: ## coverage by package, and bin/cover.html
	@mkdir -p bin
	$(GO) test -coverprofile bin/cover.out -coverpkg ./... $(PKG)
	$(GO) tool cover -html bin/cover.out -o bin/cover.html
	$(GO) tool cover -func bin/cover.out | tail -n 1

cross: ## build for every platform that we promise, without a C compiler
	@for p in $(PLATFORMS); do \
	  echo "$$p"; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) build $(BUILDFLAGS) -buildvcs=false -o /dev/null ./cmd/vramscope; \
	done

modules: ## vet and test the modules that are apart because their dependencies are heavy
	@for m in $$(git ls-files '*/go.mod' | grep -vE '(^|/)(tools|testdata)/'); do \
	  echo "$$(dirname $$m)"; \
	  (cd $$(dirname $$m) && $(GO) vet ./... && $(GO) test ./...); \
	done

screenshots: build ## the pictures of the documentation, into docs/images; that of the page needs chromium
	@mkdir -p docs/images
	for p in timeline fragmentation map sizes; do \
	  bin/vramscope report testdata/gpt_oom.pickle.zst --plot $$p -o docs/images/$$p.png; \
	done
	bin/vramscope report testdata/gpt_oom.pickle.zst --limit 12GiB --plot allocators -o docs/images/allocators.png
	bin/vramscope report testdata/gpt_oom.pickle.zst -o bin/page.html
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,960 --virtual-time-budget=5000 \
	  --screenshot=docs/images/page.png file://$(CURDIR)/bin/page.html

clean: ## what the targets above made
	rm -rf bin

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
