// Release makes a release of Bellhop in dist/release: archives, packages for Debian and for rpm, for Node and for Python, trees for apt and yum, an image, a folder
// that serves as a module proxy, licences and a bill of materials, and sums of all. Two clones of a commit make the same bytes, but for
// signatures. Nothing is uploaded.
//
//	make release VERSION=v0.1.0
//	make release VERSION=v0.1.0 SIGN=KEYID
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := release{ctx: ctx, dir: "dist/release", work: "dist/work"}
	flag.StringVar(&r.tag, "version", "", "version, such as v0.1.0")
	flag.StringVar(&r.key, "sign", "", "id of the key of gpg that signs; empty: nothing is signed")
	archs := flag.String("arch", "amd64 arm64", "architectures")
	flag.Parse()
	r.archs = strings.Fields(*archs)
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is what is made of a commit.
type release struct {
	ctx       context.Context
	tag, key  string
	archs     []string
	dir, work string // folders of the release, and of what it is made of

	module, commit string
	at             time.Time // of the commit
	err            error     // the first that occurred: from then on no method does anything
}

// make makes the release. The error says all that is in the way before anything is made, or what failed.
func (r *release) make() error {
	if err := r.check(); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	r.fail(errors.Join(os.RemoveAll(r.dir), os.RemoveAll(r.work), os.MkdirAll(r.dir, 0o755)))
	r.module = r.output("go", "list", "-m")
	for _, step := range []func(){r.build, r.notices, r.archives, r.packages, r.clients, r.image, r.proxy, r.apt, r.yum, r.sums, r.sign} {
		step()
	}
	return r.err
}

// semver is a version of a release, or of what comes before one.
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// check reads what the commit is, and returns all that is in the way of a release of it.
func (r *release) check() error {
	if !semver.MatchString(r.tag) {
		return fmt.Errorf("VERSION %q: give a semantic version with a v, such as VERSION=v0.1.0", r.tag)
	}
	var faults []error
	if changed := r.output("git", "status", "--porcelain"); changed != "" {
		faults = append(faults, fmt.Errorf("the tree is not clean; commit or remove\n%s", changed))
	}
	r.commit = r.output("git", "rev-parse", "HEAD")
	if tagged := r.output("git", "for-each-ref", "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)", "refs/tags/"+r.tag); tagged != "" && tagged != r.commit {
		faults = append(faults, fmt.Errorf("the tag %s is commit %.12s, and HEAD is %.12s; check the tag out, or give another VERSION", r.tag, tagged, r.commit))
	}
	_, changes, _ := strings.Cut("\n"+string(r.read("systemd/CHANGES.md")), "\n## ")
	if first, _, _ := strings.Cut(changes, "\n"); first != r.tag {
		faults = append(faults, fmt.Errorf("the first heading of systemd/CHANGES.md is %q; write what %s brings under ## %[2]s", first, r.tag))
	}
	if r.key != "" && exec.CommandContext(r.ctx, "gpg", "--list-secret-keys", r.key).Run() != nil {
		faults = append(faults, fmt.Errorf("SIGN %q: gpg has no such secret key; leave it out, or give one of gpg --list-secret-keys", r.key))
	}
	seconds, err := strconv.ParseInt(r.output("git", "log", "-1", "--format=%ct"), 10, 64)
	r.at = time.Unix(seconds, 0).UTC()
	r.fail(err)
	return errors.Join(append(faults, r.err)...)
}

// fail keeps the first error.
func (r *release) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// run runs a command at the time of the commit, and returns what it prints.
func (r *release) run(env []string, name string, args ...string) []byte {
	if r.err != nil {
		return nil
	}
	c := exec.CommandContext(r.ctx, name, args...)
	c.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.at.Unix(), 10)), env...)
	out, err := c.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(c.Args, " "), err, out, exit.Stderr)
	}
	r.fail(err)
	return out
}

func (r *release) output(name string, args ...string) string {
	return strings.TrimSpace(string(r.run(nil, name, args...)))
}

func (r *release) read(path string) []byte {
	if r.err != nil {
		return nil
	}
	data, err := os.ReadFile(path)
	r.fail(err)
	return data
}

// write writes a file of the release, of the time of the commit.
func (r *release) write(name string, data []byte) {
	if path := filepath.Join(r.dir, name); r.err == nil {
		r.fail(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644), os.Chtimes(path, r.at, r.at)))
	}
}

// version returns the version without its v.
func (r *release) version() string { return strings.TrimPrefix(r.tag, "v") }

// name returns the name of a file of the release.
func (r *release) name(end string) string { return "bellhop_" + r.version() + end }

// time returns the time of the commit as JSON has it.
func (r *release) time() string { return r.at.Format(time.RFC3339) }
