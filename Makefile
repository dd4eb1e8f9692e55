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
# All that is built, tested and vetted here has the same tags, so that each package is compiled once.
TAGS := kustomize_disable_go_plugin_support
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -tags=$(TAGS))

# Nodes run real containers as root on Linux; for anyone else the runtime is not needed.
REAL := $(if $(filter Linux-0,$(shell uname -s)-$(shell id -u)),runtime)

# Modules beside the product's, with their own dependencies. bench/peer, bench/etcd and cmd/vigil/early have no tests; tools/ has no code.
MODULES := runtimes test bench bench/peer bench/etcd cmd/vigil/early

# So many packages are tested at once: tests of nodes wait for containers more than they work.
AT_ONCE := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

# Rooms of which goroutines share memory. Their tests run with the race detector, too, without those that take long by the clock.
RACE := ./watchcache/... ./h2 ./informer/... ./object ./store ./apiserver ./kubelet ./kubelet/prober ./scheduler ./controllers/deployment ./controllers/replicaset

.PHONY: up build runtime test race lint vet staticcheck bench bench-sources clean

up: build $(REAL)
	@$(BIN:$(CURDIR)/%=%)/vigil up

build:
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/vigil ./cmd/vigil

# containerd, runc, CNI plug-ins and images into bin/runtime: another module, built again when it has changed.
runtime:
	@$(MAKE) --no-print-directory -C runtimes GO='$(GO)' OUT=$(BIN)/runtime

# make lint vets; the part of it that go test does by itself would go through all dependencies a second time.
TEST := $(GO) test -vet=off -p $(AT_ONCE) -timeout 20m

# $(call each,MODULES,COMMAND) runs COMMAND in each module, in all of them though it fails in one, and fails at the end.
each = @failed=; for module in $(1); do \
		echo "$$module: "'$(2)'; (cd $$module && $(2)) || failed="$$failed $$module"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed in$$failed" >&2; exit 1; fi

# test/ is a module of its own: its dependencies (controller-runtime, Helm) stay out of the product. Its tests of nodes want the runtime.
test: build $(REAL) bench-sources
	$(call each,. runtimes test bench,VIGIL=$(BIN)/vigil $(TEST) ./...)

race:
	$(TEST) -race -short $(RACE)

lint: vet staticcheck

vet: bench-sources
	$(call each,. $(MODULES),$(GO) vet ./...)

staticcheck: $(BIN)/staticcheck bench-sources
	$(call each,. $(MODULES),$(BIN)/staticcheck ./...)

# What the peer of the benchmark generates, which is not in the repository.
bench-sources:
	cd bench && $(GO) run ./run generate

$(BIN)/staticcheck: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ honnef.co/go/tools/cmd/staticcheck

# Vigil beside the upstream library, scenario by scenario: half an hour, or three minutes with QUICK=1.
# bench/ and its peer/ and etcd/ are modules of their own. bench/README.md has the other settings.
bench:
	cd bench && $(GO) build -o out/bin/run ./run && out/bin/run

clean:
	rm -rf $(BIN)
