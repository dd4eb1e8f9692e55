# Two commands do it all: `make up` runs a cluster, `make test` passes all tests.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN     := $(CURDIR)/bin
# kubectl reports the version of the libraries it is built from.
KUBERNETES := $(shell $(GO) list -m -f '{{.Version}}' k8s.io/kubectl | sed 's/^v0/v1/')
KUBECTL    := k8s.io/component-base/version
LDFLAGS    := -s -w -X main.version=$(VERSION) -X $(KUBECTL).gitVersion=$(KUBERNETES) -X $(KUBECTL).gitMajor=1 \
	-X $(KUBECTL).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))

# kustomize, which is in kubectl, would load Go plug-ins: a program that can do so keeps every method and all its symbols, a fifth of its size.
TAGS := kustomize_disable_go_plugin_support

# Nodes run real containers as root on Linux; for anyone else the runtime is not needed.
REAL := $(if $(filter Linux-0,$(shell uname -s)-$(shell id -u)),runtime)

.PHONY: up build runtime test lint vet staticcheck bench clean

up: build $(REAL)
	@$(BIN:$(CURDIR)/%=%)/vigil up

build:
	$(GO) build -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/vigil ./cmd/vigil

# containerd, runc, CNI plug-ins and images into bin/runtime: another module, built again when it has changed.
runtime:
	@$(MAKE) --no-print-directory -C runtimes GO='$(GO)' OUT=$(BIN)/runtime

# test/ is a module of its own: its dependencies (controller-runtime ...) stay out of the product.
test: build $(REAL)
	$(GO) test -timeout 20m ./...
	cd runtimes && $(GO) test ./...
	cd test && VIGIL=$(BIN)/vigil $(GO) test -timeout 20m ./...

lint: vet staticcheck

vet:
	$(GO) vet ./...
	cd runtimes && $(GO) vet ./...
	cd test && $(GO) vet ./...

staticcheck: $(BIN)/staticcheck
	$(BIN)/staticcheck ./...
	cd runtimes && $(BIN)/staticcheck ./...
	cd test && $(BIN)/staticcheck ./...

$(BIN)/staticcheck: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ honnef.co/go/tools/cmd/staticcheck

# Vigil beside the upstream library, scenario by scenario: half an hour, or three minutes with QUICK=1.
# bench/ and its peer/ and etcd/ are modules of their own. bench/README.md has the other settings.
bench:
	cd bench && $(GO) build -o out/bin/run ./run && out/bin/run

clean:
	rm -rf $(BIN)
