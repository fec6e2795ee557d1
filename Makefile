# What a developer types. `make` alone lists it.

# The linters are pinned here, outside of go.mod: they are no part of the program.
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.PHONY: help build test lint fuzz bench tools

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build ./bellhop
	go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bellhop ./cmd/bellhop

test: tools ## run every test with the race detector, against a real redis-server
	go test -race -shuffle=on -timeout 10m ./...

lint: ## run the linters; any finding fails
	@found=$$(go run $(GOFUMPT) -l .) && test -z "$$found" || { echo "gofumpt would change:"; echo "$$found"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

FUZZTIME = 30s

fuzz: ## run each fuzz test for FUZZTIME
	@for f in $$(grep -rEo '^func Fuzz[A-Za-z]+' --include=*_test.go . | sed -E 's,/[^/]*:func ,:,'); do \
		go test -run '^$$' -fuzz "^$${f#*:}\$$" -fuzztime $(FUZZTIME) $${f%:*} || exit 1; done

bench: build ## measure this machine: starts a redis-server of its own
	./bellhop bench --own

# The tests need redis-server, Node 18 or newer for the examples, and the race detector a C compiler.
tools:
	@missing=""; command -v redis-server >/dev/null || missing="redis-server"; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	command -v node >/dev/null || missing="$$missing nodejs"; \
	command -v npm >/dev/null || missing="$$missing npm"; \
	test -z "$$missing" || { sudo=""; test "$$(id -u)" = 0 || sudo=sudo; \
		echo "installing $$missing"; $$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; }
	@node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || { echo "node is $$(node --version): the tests need v18 or newer"; exit 1; }
