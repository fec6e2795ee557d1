# What a developer types. `make` alone lists it.

# Linters are pinned here, not in go.mod: they are not part of the program.
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
NFPM        = github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0

# Everything is compiled as it is installed, for tools, linters and tests, too: that takes most of the time of a first build. The tests of
# packages in which goroutines meet are compiled a second time, with the race detector. Without the paths of the clone, another one finds in
# the cache what this one compiled; without what a debugger needs, programs are linked faster. vet runs once, in lint.
export CGO_ENABLED = 0
export GOFLAGS := $(filter-out -trimpath -ldflags=-w,$(GOFLAGS)) -trimpath -ldflags=-w
RACED = CGO_ENABLED=1 go test -race -vet=off

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# A program that was built with the race detector sleeps for a second at its end, for goroutines that still run: tests leave none.
export GORACE ?= atexit_sleep_ms=0

.PHONY: help build test packages trials alone meeting sweeps shuffled race lint vendored pictures screenshots console fuzz shards faults mixed model matrix takeovers mutants bench benchmarks generate zones install files uninstall deb rpm release released tools linters

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build ./bellhop
	go build -ldflags '-X main.version=$(VERSION)' -o bellhop ./cmd/bellhop

SUDO = $$(test "$$(id -u)" = 0 || echo sudo)

# install-missing installs the Debian packages of those programs, PROGRAM:PACKAGE, that are not there.
install-missing = missing=""; PATH="$$PATH:$$(echo /usr/lib/postgresql/*/bin)"; \
	for tool in $(1); do command -v $${tool%:*} >/dev/null || missing="$$missing $${tool\#*:}"; done; \
	test -z "$$missing" || { echo "installing$$missing"; $(SUDO) apt-get update -q && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; }

# The program that tests run as Redis, a name on PATH or a path: make test REDIS_SERVER=/opt/valkey/bin/valkey-server.
# A relative path is made absolute, since each test package runs in its own folder.
REDIS_SERVER ?= redis-server
override export REDIS_SERVER := $(if $(findstring /,$(REDIS_SERVER)),$(abspath $(REDIS_SERVER)),$(REDIS_SERVER))

# Sweeps, which are many cases that are alike, and trials take long. make test makes a third of them, another one for each commit, and all
# other targets make all.
export THIRD =

test: ## run the tests of the packages and this commit's third of the trials, on redis-server or the program that REDIS_SERVER names
	@$(MAKE) --no-print-directory --keep-going -j1 packages trials THIRD=$$(expr $$(git rev-list --count HEAD 2>/dev/null || echo 0) % 3)

# The trials judge bounds on real time, so one package runs at a time, and nothing beside it. Their tests mostly wait for such bounds, too.
TRIALS = ./cmd/bellhop/internal/trials
TRIAL  = go test -count=1 -vet=off -p 1 -parallel $$((2 * $$(nproc))) -shuffle=on
ALWAYS = faults/... mutants pagestest standstill
LONG_0 = crash
LONG_1 = failover model
LONG_2 = vm/... ../bench/against

# go test keeps a result until what was tested changes, or a variable or a file of the tree that the test read: of that the path counts, and
# each clone has another one. So the tests of packages embed what they read. Those that cannot, and sweeps, are named so, and run with the trials.
UNKEPT  = ^(TestPageOf|Fuzz)|ByThirds$$
HOLDING = $$(grep -rlE --include=*_test.go '^func (TestPageOf|Fuzz|Test[A-Za-z]+ByThirds\()' . | grep -v $(TRIALS) | xargs -n1 dirname | sort -u)

# As many packages as there are processors are tested at a time, once with and once without the race detector, and twice as many tests of
# each, since many tests mostly wait. What takes longest begins first.
TOGETHER = -p $$(nproc) -parallel $$((2 * $$(nproc))) -timeout 10m -skip '$(UNKEPT)' $(ORDER)
MEETING  = ./subscribers/... ./daemon/httpapi/... ./daemon/natsgate ./daemon/push ./daemon/cache ./carrier ./notify/store/reach
ALONE    = ./daemon/console ./cmd/bellhop $$(go list ./... | grep -vxF "$$(go list $(MEETING) $(TRIALS)/... $(TRIALS)/../bench/against)")

packages: tools ## run the tests of the packages that changed, where goroutines meet with the race detector
	@$(MAKE) --no-print-directory --keep-going -j2 alone meeting

alone:
	go test -vet=off $(TOGETHER) $(ALONE)

meeting:
	$(RACED) $(TOGETHER) $(MEETING)

shuffled: ## run all tests of the packages anew, in another order
	@$(MAKE) --no-print-directory packages ORDER=-shuffle=on

trials: tools ## run the trials: crashes, failovers, faults under load, virtual machines, the commands of the pages
	go build ./... # on all cores, in contrast to -p 1
	$(TRIAL) -timeout 10m $(patsubst %,$(TRIALS)/%,$(if $(THIRD),$(ALWAYS) $(LONG_$(THIRD)),... ../bench/against))
	$(TRIAL) -p $$(nproc) -timeout 10m -run '$(UNKEPT)' $(HOLDING) # none of which judges real time

sweeps: tools ## run each case of the sweeps, as make trials does
	$(TRIAL) -run 'ByThirds$$' $(HOLDING)

race: tools ## run everything with the race detector, the daemons of the trials, too
	$(RACED) $(TOGETHER) -shuffle=on $$(go list ./... | grep -v $(TRIALS:.%=%))
	$(RACED) -p 1 -shuffle=on -timeout 20m $(TRIALS)/...

lint: linters ## run the linters; any finding fails
	@found=$$(go run $(GOFUMPT) -l .) && test -z "$$found" || { echo "gofumpt would change:"; echo "$$found"; exit 1; }
	GOGC=400 go vet ./... # which compiles most of all, a sixth faster so
	go run $(STATICCHECK) ./...
	library=$$(go run ./notify/store/script/librarytext) && printf '%s\n' "$$library" | luacheck --quiet --no-color --config notify/store/script/lua/.luacheckrc -
	cd notify/store/script/lua && luacheck --quiet --no-color found.lua rehearse.lua

linters:
	@$(call install-missing,luacheck:lua-check)

SHARDS = 8

shards: tools ## run the tests of the packages that work on shards with SHARDS of them in each store
	BELLHOP_TEST_SHARDS=$(SHARDS) $(RACED) -count=1 -shuffle=on -timeout 20m ./notify/... ./carrier ./subscribers ./daemon/... ./cmd/bellhop

# Pictures of the console's pages, and all that is tested of them in a browser. make test looks at each page once.
SCREENSHOTS = dist/screenshots

pictures: tools ## write the pictures of README.md again
	go test -count=1 -run '^TestPictures$$' ./daemon/console -console.pictures $(CURDIR)/daemon/console/pictures

screenshots: tools ## write pictures of the console's pages, light and dark, wide and narrow, to dist/screenshots
	go test -count=1 -timeout 20m -run '^TestPagesByThirds$$' ./daemon/console -console.screenshots $(abspath $(SCREENSHOTS))

console: tools ## run all tests of the console, with each page in both colours, wide and narrow, with and without JavaScript
	$(RACED) -count=1 -shuffle=on -timeout 20m ./daemon/console/... -console.all

FUZZTIME = 30s

fuzz: ## run each fuzz test for FUZZTIME
	@for f in $$(grep -rEo '^func Fuzz[A-Za-z]+' --include=*_test.go . | sed -E 's,/[^/]*:func ,:,'); do \
		go test -run '^$$' -fuzz "^$${f#*:}\$$" -fuzztime $(FUZZTIME) $${f%:*} || exit 1; done

# Each round prints its seed, which repeats the plan alone: make faults SEED=4711 ROUNDS=1. SLACK is added to the stated bounds.
ROUNDS = 20
SEED  ?= 0
SLACK  = 1s

faults: tools ## inject faults under load, each once and then in ROUNDS random rounds, and check that nothing is lost
	$(TRIAL) -run '^($(if $(filter 0,$(SEED)),TestEachFault|)TestRandom)$$' -v -timeout 3h $(TRIALS)/faults -faults.rounds $(ROUNDS) -faults.seed $(SEED) -trials.slack $(SLACK)

mixed: tools ## let programs of the version before work beside present ones, in ROUNDS rounds with faults
	$(TRIAL) -run '^TestBesideBefore$$' -v -timeout 3h $(TRIALS)/faults -faults.beside $(ROUNDS) -faults.seed $(SEED) -trials.slack $(SLACK)

PUBLISHES = 1000000

model: tools ## publish PUBLISHES messages on few ids from processes that are killed, and check all answers against a model
	$(TRIAL) -run '^TestModel$$' -v -timeout 1h $(TRIALS)/model -model.publishes $(PUBLISHES)

matrix: tools ## inject each fault into each process by itself, and print a table of how late messages were
	$(TRIAL) -run '^TestEachFault$$' -v -timeout 1h $(TRIALS)/faults -faults.together 1 -faults.replicated

takeovers: tools ## measure how long a takeover by another carrier takes, 50 times for each cause
	$(TRIAL) -run '^TestTakeover$$' -v -timeout 1h $(TRIALS)/faults -faults.takeovers 50

# MUTANTS chooses among what is broken, by a regular expression: make mutants MUTANTS=lease.
MUTANTS =

mutants: tools ## break one thing at a time, and check that the tests that mean it fail
	go run ./cmd/bellhop/internal/trials/mutants -all -only '$(MUTANTS)'

# BASE is a commit of the past to measure beside this tree, in turns: make bench BASE=b6f0862.
BASE =

bench: build ## measure this machine, with a redis-server of its own, or with BASE a commit of the past and this tree in turns
	$(if $(BASE),go run ./cmd/bellhop/internal/bench/against -base $(BASE),go run ./cmd/bellhop/bench -own)

benchmarks: tools ## run each Go benchmark of cmd/bellhop/internal/bench/README.md once
	go test -run '^$$' -bench . -benchtime 1x -timeout 40m ./notify ./notify/store ./notify/find ./notify/forecast ./subscribers ./carrier ./daemon ./daemon/console ./daemon/natsgate ./daemon/push

# What the console's pages and tests take from elsewhere. htmx begins in the next turn after its script, so its extension is in
# the same file: in one of its own it may come too late, and a page would never change.
HTMX  = htmx.org@4.0.1
UPLOT = uplot@1.6.32
AXE   = axe-core@4.14.1
ASSETS = daemon/console/assets

vendored: tools ## fetch the files again that the console has from npm, at the versions in the Makefile
	@for package in $(HTMX) $(UPLOT) $(AXE); do \
		dir=dist/npm/$${package%@*} && rm -rf $$dir && mkdir -p $$dir && \
		npm pack --silent --pack-destination $$dir $$package >/dev/null && tar xzf $$dir/*.tgz -C $$dir --strip-components 1 || exit 1; done
	{ cat dist/npm/htmx.org/dist/htmx.min.js; echo; cat dist/npm/htmx.org/dist/ext/hx-sse.min.js; } > $(ASSETS)/htmx.min.js
	cp dist/npm/htmx.org/LICENSE $(ASSETS)/htmx.LICENSE
	cp dist/npm/uplot/dist/uPlot.iife.min.js $(ASSETS)/uplot.min.js
	cp dist/npm/uplot/dist/uPlot.min.css $(ASSETS)/uplot.min.css
	cp dist/npm/axe-core/axe.min.js dist/npm/axe-core/LICENSE daemon/console/consoletest/testdata/
	mv daemon/console/consoletest/testdata/LICENSE daemon/console/consoletest/testdata/axe.LICENSE
	rm -rf dist/npm

generate: ## rewrite the files that are generated from the code
	go run ./cmd/bellhop config --env > systemd/bellhop.env.new
	mv systemd/bellhop.env.new systemd/bellhop.env
	go run ./notify/store/script/keysdoc < notify/store/script/doc.go > notify/store/script/doc.go.new
	mv notify/store/script/doc.go.new notify/store/script/doc.go

CALENDAR = notify/store/calendar

zones: ## take the rules of time zones, and their version, from the Go that builds
	cp "$$(go env GOROOT)/lib/time/zoneinfo.zip" $(CALENDAR)/zoneinfo.zip
	sed -n 's/^DATA=//p' "$$(go env GOROOT)/lib/time/update.bash" > $(CALENDAR)/version

# Where files are installed. /etc does not move with PREFIX.
PREFIX  = /usr/local
DESTDIR =
UNITS   = bellhop.service bellhop.socket bellhop-work@.service bellhop-listen@.service bellhop-check.service bellhop-check.timer
MONITORING = daemon/metrics/grafana.json daemon/metrics/alerts.yml

# The man pages carry the date of the last commit, so that builds are reproducible.
SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || date +%s)

install: ## install under PREFIX (/usr/local), or below DESTDIR for a package; see systemd/README.md
	umask 022 && $(MAKE) --no-print-directory files

# A release gives the program, and one that runs here and prints the same pages.
PROGRAM =
PRINTER = $(DESTDIR)$(PREFIX)/bin/bellhop

files: # what install installs, with a umask that lets all users read it
	$(if $(PROGRAM),install -D $(PROGRAM),go build -ldflags '-s -w -X main.version=$(VERSION)' -o) $(DESTDIR)$(PREFIX)/bin/bellhop $(if $(PROGRAM),,./cmd/bellhop)
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)/etc/bellhop/work $(DESTDIR)/etc/bellhop/listen
	for unit in $(UNITS); do sed 's,/usr/bin/bellhop,$(PREFIX)/bin/bellhop,' systemd/$$unit > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit || exit 1; done
	chmod 644 $(UNITS:%=$(DESTDIR)$(PREFIX)/lib/systemd/system/%)
	install -D -m 644 systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/bellhop.conf
	test -e $(DESTDIR)/etc/bellhop/bellhop.env || install -m 640 systemd/bellhop.env $(DESTDIR)/etc/bellhop/bellhop.env # a URL in it may hold a password
	install -d $(DESTDIR)$(PREFIX)/share/bellhop
	install -m 644 $(MONITORING) $(DESTDIR)$(PREFIX)/share/bellhop
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(PRINTER) man $(DESTDIR)$(PREFIX)/share/man/man1
	gzip -9nf $(DESTDIR)$(PREFIX)/share/man/man1/bellhop*.1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(PRINTER) completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/bellhop
	$(PRINTER) completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_bellhop
	$(PRINTER) completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/bellhop.fish

uninstall: ## remove what install installed, except /etc/bellhop
	rm -f $(DESTDIR)$(PREFIX)/bin/bellhop $(UNITS:%=$(DESTDIR)$(PREFIX)/lib/systemd/system/%) $(DESTDIR)$(PREFIX)/lib/sysusers.d/bellhop.conf
	rm -rf $(DESTDIR)$(PREFIX)/share/bellhop
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/bellhop.1.gz $(DESTDIR)$(PREFIX)/share/man/man1/bellhop-*.1.gz
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/bellhop $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_bellhop $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/bellhop.fish

# A version that dpkg can compare: the tag, or the time of the commit while there is no tag.
DEB_VERSION = $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/' | grep . || \
	TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=0.0.0+git%cd.%h 2>/dev/null || echo 0.0.0)
DIST = dist

ARCH = $(shell go env GOARCH)
NOTICES =

deb: ## build the Debian package, into dist/
rpm: # of a release
deb rpm:
	rm -rf $(DIST)/root $(DIST)/bellhop*.$@
	$(MAKE) --no-print-directory install DESTDIR=$(DIST)/root PREFIX=/usr
	install -d $(DIST)/root/usr/share/doc/bellhop
	{ printf 'bellhop (%s) unstable; urgency=medium\n\n' '$(DEB_VERSION)'; sed -n '/^## /,$$p' systemd/CHANGES.md | sed -E '1d; /./!d; s/^/  /'; \
		printf '\n -- Bellhop authors <bellhop@localhost>  %s\n' "$$(date -uR -d @$(SOURCE_DATE_EPOCH))"; } | gzip -9n > $(DIST)/root/usr/share/doc/bellhop/changelog.gz
	chmod 644 $(DIST)/root/usr/share/doc/bellhop/changelog.gz
	$(if $(NOTICES),install -m 644 $(NOTICES) $(DIST)/root/usr/share/doc/bellhop/NOTICES)
	install -D -m 644 systemd/lintian-overrides $(DIST)/root/usr/share/lintian/overrides/bellhop
	sed 's,@ROOT@,$(DIST)/root,' systemd/nfpm.yaml > $(DIST)/nfpm.yaml
	ARCH=$(ARCH) DEB_VERSION='$(DEB_VERSION)' SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) go run $(NFPM) package --config $(DIST)/nfpm.yaml --packager $@ --target $(DIST)/
	rm -rf $(DIST)/root $(DIST)/nfpm.yaml

RELEASE_TOOLS = apt-ftparchive:apt-utils createrepo_c:createrepo-c

SIGN  =
ARCHS = amd64 arm64

release: ## make the release VERSION in dist/release, signed by the gpg key SIGN if there is one
	@$(call install-missing,$(RELEASE_TOOLS))
	@go run ./systemd/release -version '$(if $(filter command line,$(origin VERSION)),$(VERSION))' -sign '$(SIGN)' -arch '$(ARCHS)'

released: tools ## make a release for all architectures in two clones, compare the bytes, and run what was made
	$(TRIAL) -run '^TestRelease$$' -v -timeout 1h $(TRIALS)/vm -twice

# Tests need redis-server, the program that REDIS_SERVER names, curl, chromium-headless-shell and openssl for HTTP, Node 18 and Python 3.10
# or newer for clients and examples, the programs of PostgreSQL and PgBouncer for the archive, systemd and util-linux to boot the units in a sandbox, and
# what makes and reads packages for a release; the race detector needs a C compiler. PostgreSQL is installed without the cluster that its package
# would start.
NO_CLUSTER = /etc/postgresql-common/createcluster.d/bellhop.conf
tools:
	@test "$(REDIS_SERVER)" = redis-server || command -v "$(REDIS_SERVER)" >/dev/null || \
		{ echo "REDIS_SERVER: there is no program $(REDIS_SERVER); name one on PATH, or give its full path"; exit 1; }
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || $(SUDO) sh -c 'mkdir -p $(dir $(NO_CLUSTER)) && echo "create_main_cluster = false" > $(NO_CLUSTER)'
	@$(call install-missing,redis-server:redis-server cc:gcc cc:libc6-dev node:nodejs npm:npm python3:python3 pip3:python3-pip mypy:mypy chromium-headless-shell:chromium-headless-shell curl:curl \
		openssl:openssl /lib/systemd/systemd:systemd nsenter:util-linux /usr/sbin/pgbouncer:pgbouncer postgres:postgresql $(RELEASE_TOOLS) \
		gpg-agent:gnupg rpm:rpm skopeo:skopeo umoci:umoci)
	@node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || { echo "node is $$(node --version): the tests need v18 or newer"; exit 1; }
