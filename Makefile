# Two commands do it all: `make up` runs a cluster, `make test` passes all tests.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN     := $(CURDIR)/bin
# kubectl reports the version of the libraries it is built from.
KUBERNETES := $(shell $(GO) list -m -f '{{.Version}}' k8s.io/kubectl | sed 's/^v0/v1/')
KUBECTL    := k8s.io/component-base/version
LDFLAGS    := -s -w -X main.version=$(VERSION) -X $(KUBECTL).gitVersion=$(KUBERNETES) -X $(KUBECTL).gitMajor=1 \
	-X $(KUBECTL).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))

.PHONY: up build test lint vet staticcheck bench clean

up: build
	$(BIN)/vigil up

build:
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/vigil ./cmd/vigil

# test/ is a module of its own: its dependencies (controller-runtime ...) stay out of the product.
test: build
	$(GO) test -timeout 20m ./...
	cd test && VIGIL=$(BIN)/vigil $(GO) test -timeout 20m ./...

lint: vet staticcheck

vet:
	$(GO) vet ./...
	cd test && $(GO) vet ./...

staticcheck: $(BIN)/staticcheck
	$(BIN)/staticcheck ./...
	cd test && $(BIN)/staticcheck ./...

$(BIN)/staticcheck: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ honnef.co/go/tools/cmd/staticcheck

# Vigil beside the upstream library, scenario by scenario: half an hour, or three minutes with QUICK=1.
# bench/ and its peer/ and etcd/ are modules of their own. bench/README.md has the other settings.
bench:
	cd bench && $(GO) build -o out/bin/run ./run && out/bin/run

clean:
	rm -rf $(BIN)
