# Tasks of the project. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
GO ?= go
# How long each fuzz target runs in `make test-real`; CI sets 30s.
FUZZTIME ?= 5s
TIMEOUT ?= 40m
# More flags of go test.
TESTFLAGS ?=
export CGO_ENABLED := 0
# The host module is built by itself, so that nothing of Kubernetes is fetched for it. The
# module kube/ is built with go.work, so that it shares what is compiled of the host module.
export GOWORK := off
KUBE := GOWORK= $(GO)
# Tests are built as the programs that they run, and without the profile that releases
# are built with, so that no package is compiled twice.
run check lint vuln test test-kube test-real test-nightly race: export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath -pgo=off
# Many tests wait: for servers, clocks, the turn to change the machine. So more packages, and
# more tests of one, run side by side than there are processors.
SIDE_BY_SIDE := -p $(shell echo $$(($$(nproc) + 1))) -parallel $(shell echo $$((2 * $$(nproc))))
# The same form as of the packages (packaging/version).
VERSION := $(shell packaging/version 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the static programs into bin/, as they are released
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/fettle ./cmd/fettle
	$(KUBE) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kubectl-fettle ./kube/cmd/kubectl-fettle

# The main job, read only: what the machine is, what it should be tuned to, what
# that would change, and how what is in force now compares with it. `verify` may
# answer "not met" (3): that is an answer, not a failure of this target.
.PHONY: run
run: ## build fettle and run its main job on this machine, read only
	@mkdir -p bin
	@$(GO) build -ldflags '$(LDFLAGS)' -o bin/fettle ./cmd/fettle
	@answer() { printf '\n$$ fettle %s\n' "$$*"; local code=0; bin/fettle "$$@" || code=$$?; \
		[[ $$code == 0 || $$code == 3 ]] || exit $$code; }; \
	answer facts --brief; \
	answer recommend; \
	answer diff; \
	answer status; \
	if bin/fettle status --output json | grep -q '"profiles": \[\]'; then \
		answer verify "$$(bin/fettle recommend --output json | sed -n 's/^  "profile": "\(.*\)",*$$/\1/p')"; \
	else answer verify; fi

.PHONY: check
check: lint test test-kube ## lint, and the tests of minutes

.PHONY: test
test: ## the tests of the host module: any user, no other programs, minutes
	$(GO) test -short -json $(TESTFLAGS) $(SIDE_BY_SIDE) -timeout $(TIMEOUT) ./... | $(GO) run ./test/summary

.PHONY: test-kube
test-kube: ## the same of the module kube/
	$(KUBE) test -short -json $(TESTFLAGS) $(SIDE_BY_SIDE) -timeout $(TIMEOUT) ./kube/... | $(GO) run ./test/summary

# Packages that have goroutines of their own; at night all are looked at.
RACE ?= ./internal/daemon/... ./internal/engine/journal ./internal/host ./internal/measure/prove/... ./internal/requests/...
.PHONY: race
race: ## the short tests of RACE with the race detector, which needs a C compiler
	CGO_ENABLED=1 $(GO) test -race -short $(TESTFLAGS) $(SIDE_BY_SIDE) -timeout $(TIMEOUT) $(RACE)

# The modules below test/ wait more than they work, and the fuzz targets only work: they run
# side by side, and what the latter say comes last.
.PHONY: test-real
test-real: root chromium duckdb ## with the real products, browser, guest and cluster; fuzzing for FUZZTIME a target
	$(GO) test $(TESTFLAGS) $(SIDE_BY_SIDE) -timeout $(TIMEOUT) ./...
	$(KUBE) test $(TESTFLAGS) $(SIDE_BY_SIDE) -timeout $(TIMEOUT) ./kube/...
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT; \
	nice -n 5 test/fuzz $(FUZZTIME) >"$$said" 2>&1 & fuzz=$$!; \
	status=0; test/nested || status=$$?; wait "$$fuzz" || status=$$?; cat "$$said"; exit "$$status"

# How long it takes, and what of it: test/README.md, "The slow matrix".
.PHONY: test-nightly
test-nightly: root chromium duckdb ## test-real and the slow matrix; the race detector over all
	@$(MAKE) --no-print-directory race RACE=./...
	@! command -v java >/dev/null || test/pypi pyspark >/dev/null
	@! python3 -c 'import ensurepip' 2>/dev/null || test/pypi otava >/dev/null
	FETTLE_TEST_NIGHTLY=1 $(GO) test -timeout 6h ./...
	FETTLE_TEST_NIGHTLY=1 $(KUBE) test -timeout 6h ./kube/...
	@FETTLE_TEST_NIGHTLY=1 test/nested
	@test/fuzz $(FUZZTIME) all

.PHONY: bench
bench: root build ## measure fettle and its peers, side by side
	FETTLE_BENCH=1 $(GO) test -run TestBench -v -count 1 -timeout $(TIMEOUT) ./test/peers
	$(GO) test -run '^$$' -bench . -benchmem -timeout $(TIMEOUT) ./internal/...
	$(KUBE) test -run '^$$' -bench . -benchmem -timeout $(TIMEOUT) ./kube/...
	test/cluster/build >/dev/null && cd test/cluster && FETTLE_BENCH=1 $(GO) test -run TestBench -v -count 1 -timeout 90m .

.PHONY: profile
profile: ## write cmd/fettle/default.pgo, the CPU profile that releases are built with
	FETTLE_BENCH_PROFILE=1 $(GO) test -trimpath -run TestProfileLogs -v -count 1 -timeout $(TIMEOUT) ./test/peers

.PHONY: golden
golden: ## write expected outputs again (read the diff before you commit)
	FETTLE_UPDATE_GOLDEN=1 $(GO) test -count=1 -short ./...
	FETTLE_UPDATE_GOLDEN=1 $(KUBE) test -count=1 -short ./kube/...
	@git diff --stat

.PHONY: man
man: ## write the manual pages and the shell completions into dist/
	@rm -rf dist/man dist/completion && mkdir -p dist/man dist/completion
	$(GO) run ./packaging/man -version '$(VERSION)' dist

.PHONY: dist
dist: ## build the packages (deb and rpm, amd64 and arm64; ARCH=amd64: one) into dist/
	@GO='$(GO)' packaging/build dist $(ARCH)

.PHONY: ansible
ansible: ## build the Ansible collection into dist/ (installs ansible-core from PyPI into the cache)
	@mkdir -p dist
	@bin=$$(test/ansible/build) && "$$bin/ansible-galaxy" collection build --force --output-path dist packaging/ansible

# goreleaser and syft must be installed (go install; the versions are in .github/workflows/release.yml).
.PHONY: release-snapshot
release-snapshot: ## make a release in dist/release without publishing, with a key for the test
	@mkdir -p dist
	@[[ -n "$${RELEASE_KEY:-}" ]] || openssl ecparam -name prime256v1 -genkey -noout -out dist/test-key.pem
	RELEASE_KEY="$${RELEASE_KEY:-dist/test-key.pem}" goreleaser release --snapshot --clean

# Tags of images cannot have the + and ~ of versions.
TAG = $(subst ~,-,$(subst +,-,$(VERSION)))
.PHONY: images
images: build ## build the container images of fettle and kubectl-fettle with podman
	podman build -f packaging/Containerfile -t 'fettle:$(TAG)' .
	podman build -f kube/deploy/Containerfile -t 'kubectl-fettle:$(TAG)' .

PREFIX ?= /usr/local
SHARE := $(DESTDIR)$(PREFIX)/share
# Builds nothing, so that root needs no compiler. fettle tune --persist installs the units.
.PHONY: install
install: ## install what make build and make man made below PREFIX (/usr/local)
	@[[ -x bin/fettle && -x bin/kubectl-fettle && -d dist/man ]] || { echo "nothing to install: run make build man first"; exit 2; }
	install -D -t '$(DESTDIR)$(PREFIX)/bin' bin/fettle bin/kubectl-fettle
	install -D -m 0644 -t '$(SHARE)/doc/fettle' docs/*.md
	install -D -m 0644 -t '$(SHARE)/doc/kubectl-fettle' docs/*.md
	install -D -m 0644 -t '$(SHARE)/man/man8' dist/man/*.8
	install -D -m 0644 dist/completion/fettle.bash '$(SHARE)/bash-completion/completions/fettle'
	install -D -m 0644 -t '$(SHARE)/zsh/site-functions' dist/completion/_fettle
	install -D -m 0644 -t '$(SHARE)/fish/vendor_completions.d' dist/completion/fettle.fish

.PHONY: uninstall
uninstall: ## remove what make install installed; run fettle undo first
	rm -rf '$(SHARE)/doc/fettle' '$(SHARE)/doc/kubectl-fettle'
	rm -f '$(DESTDIR)$(PREFIX)/bin/fettle' '$(DESTDIR)$(PREFIX)/bin/kubectl-fettle' '$(SHARE)/man/man8/fettle.8' '$(SHARE)/man/man8/fettle-'*.8
	rm -f '$(SHARE)/bash-completion/completions/fettle' '$(SHARE)/zsh/site-functions/_fettle' '$(SHARE)/fish/vendor_completions.d/fettle.fish'

# Needs everything, the slow matrix too: each test has to pass and none may skip,
# or proofs would be lost. Run it on a machine that tests may change.
PROOFS := internal/engine/plugin/table/testdata/proofs.txt
PRODUCT_PROOFS := internal/product/table/testdata/proofs.txt
.PHONY: proofs
proofs: root ## run the tests that prove options, and write the manual's table of proofs
	@new=$$(mktemp); trap 'rm -f "$$new"' EXIT; \
	FETTLE_PROOF_FILE=$$new FETTLE_TEST_NIGHTLY=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 \
		$(GO) test -count=1 -timeout 6h -skip '^TestManual$$' ./internal/engine/plugin/... ./internal/daemon ./test/peers; \
	LC_ALL=C sort -u "$$new" >$(PROOFS); : >"$$new"; \
	FETTLE_PROOF_FILE=$$new FETTLE_TEST_NIGHTLY=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 \
		$(GO) test -count=1 -timeout 1h -run '^TestServices$$' ./internal/product/table; \
	LC_ALL=C sort -u "$$new" >$(PRODUCT_PROOFS)
	FETTLE_UPDATE_GOLDEN=1 $(GO) test -run '^TestManual$$' ./internal/engine/plugin/table ./internal/product/table
	@git diff --stat

# On a machine that does nothing else: an hour and a half at the most.
.PHONY: experiments
experiments: root ## run the experiments of docs/proofs, and write their pages
	FETTLE_PROOFS=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 $(GO) test -count=1 -v -timeout 4h ./test/proofs
	FETTLE_PROOFS=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 FETTLE_TEST_NIGHTLY=1 $(GO) test -count=1 -v -timeout 1h -run '^TestMeasure$$' ./test/scenarios
	FETTLE_PROOFS=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 FETTLE_TEST_NIGHTLY=1 $(GO) test -count=1 -v -timeout 1h -run '^TestLadder$$' ./test/scenarios
	FETTLE_UPDATE_GOLDEN=1 $(GO) test -run 'Page$$' ./test/proofs
	FETTLE_UPDATE_GOLDEN=1 $(GO) test -run '^TestProofs$$' ./internal/measure/runpage
	@git diff --stat

# Programs with dependencies of their own: tools/go.mod, and tools/lint/go.mod for the linter.
# They are built once into Go's build cache (the linter takes minutes). `go tool -n` prints
# where, because the linter has to run in the workspace, which knows no -modfile.
TOOL := $(GO) tool -modfile=tools/go.mod

.PHONY: lint
lint: ## vet, format, and golangci-lint in the version of tools/lint/go.mod
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [[ -n $$unformatted ]]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(KUBE) vet ./kube/...
	@linter=$$($(GO) tool -n -modfile=tools/lint/go.mod golangci-lint); \
	"$$linter" run --timeout 20m ./... && cd kube && GOWORK= "$$linter" run --timeout 20m ./...

.PHONY: generate
generate: ## write generated code again: the copies of the objects of an API
	@generator=$$($(TOOL) -n controller-gen); cd kube && GOWORK= "$$generator" object paths=./machine paths=./kubelet paths=./tuned

.PHONY: vuln
vuln: ## known vulnerabilities in both modules (asks vuln.go.dev)
	$(TOOL) govulncheck ./...
	@check=$$($(TOOL) -n govulncheck); cd kube && "$$check" ./...

.PHONY: root
root: ## build the cached Debian test roots, if this user may
	@if [[ $$(id -u) == 0 || $${FETTLE_TEST_REQUIRE:-0} == 1 ]]; then test/root/build >/dev/null; test/root/build servers >/dev/null; \
	else echo "not root: tests that need a Debian test root skip; run: sudo test/root/build; sudo test/root/build servers"; fi

# Pages are tested in a browser, with axe-core from the npm registry; at night Cockpit too.
.PHONY: chromium
chromium:
	@command -v npm >/dev/null || [[ $$(id -u) != 0 || $${FETTLE_TEST_DISPOSABLE:-0} != 1 ]] || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends npm; } >&2 </dev/null
	@! command -v npm >/dev/null || { test/axe >/dev/null; test/eslint/run --fetch; }
	@command -v chromium >/dev/null || { \
		[[ $$(id -u) == 0 && $${FETTLE_TEST_DISPOSABLE:-0} == 1 ]] || { echo "no chromium: the tests that look at a page skip; run: sudo apt-get install --no-install-recommends chromium"; exit 0; }; \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium; } >&2 </dev/null

# Exported logs are read by DuckDB, at night by Spark too.
.PHONY: duckdb
duckdb:
	@python3 -c 'import ensurepip' 2>/dev/null || { echo "no venv for Python: the tests with DuckDB skip; run: sudo apt-get install python3-venv"; exit 0; }; test/pypi duckdb >/dev/null

.PHONY: changelog-new
changelog-new: ## ask for a fragment of the change log (.changes/unreleased)
	@$(TOOL) changie new

.PHONY: changelog
changelog: ## write CHANGELOG.md from the fragments
	@$(TOOL) changie merge -u '## Unreleased'

.PHONY: clean
clean: ## remove bin/, dist/ and the test results; the cached test root stays
	rm -rf bin dist
	$(GO) clean -testcache
