package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// An entry is a file of an archive, or a folder, whose name ends with a slash.
type entry struct {
	name string
	mode int64
	data []byte
}

// tar returns an archive.
func (r *release) tar(entries ...entry) []byte {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(e.name, "/") {
			kind = tar.TypeDir
		}
		r.fail(w.WriteHeader(&tar.Header{Name: e.name, Typeflag: kind, Mode: e.mode, Size: int64(len(e.data)), ModTime: r.at}))
		_, err := w.Write(e.data)
		r.fail(err)
	}
	r.fail(w.Close())
	return archive.Bytes()
}

// gzip returns data compressed.
func (r *release) gzip(data []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	r.fail(err)
	_, err = w.Write(data)
	r.fail(errors.Join(err, w.Close()))
	return packed.Bytes()
}

// program returns the path of the program of an architecture.
func (r *release) program(arch string) string { return filepath.Join(r.work, arch, "bellhop") }

func (r *release) build() {
	for _, arch := range r.archs {
		flags := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s", r.tag, r.commit)
		r.run([]string{"GOOS=linux", "GOARCH=" + arch}, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", r.program(arch), "./cmd/bellhop")
	}
}

// archives makes what is unpacked and run.
func (r *release) archives() {
	for _, arch := range r.archs {
		r.write(r.name("_linux_"+arch+".tar.gz"), r.gzip(r.tar(
			entry{"bellhop", 0o755, r.read(r.program(arch))},
			entry{"LICENSE", 0o644, r.read("LICENSE")},
			entry{"NOTICES", 0o644, r.read(r.noticesFile())},
			entry{"CHANGES.md", 0o644, r.read("systemd/CHANGES.md")},
		)))
	}
}

// packages makes the packages. The program for this host prints the pages of the manual.
func (r *release) packages() {
	host := r.output("go", "env", "GOHOSTARCH")
	for _, arch := range r.archs {
		for _, kind := range []string{"deb", "rpm"} {
			out := filepath.Join(r.work, arch, kind)
			r.fail(os.MkdirAll(out, 0o755))
			r.run(nil, "make", "--no-print-directory", kind, "ARCH="+arch, "DIST="+out, "PROGRAM="+r.program(arch), "PRINTER="+r.program(host),
				"NOTICES="+r.noticesFile(), "DEB_VERSION="+strings.Replace(r.version(), "-", "~", 1)) // ~ is older than the release
			made, err := filepath.Glob(filepath.Join(out, "*."+kind))
			r.fail(err)
			for _, path := range made {
				r.write(filepath.Base(path), r.read(path))
			}
		}
	}
}

// proxy makes a folder that serves the module as a proxy of Go does.
func (r *release) proxy() {
	version := filepath.Join("goproxy", filepath.FromSlash(r.module), "@v", r.tag)
	r.write(filepath.Join(filepath.Dir(version), "list"), []byte(r.tag+"\n"))
	r.write(version+".info", fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, r.tag, r.time()))
	r.write(version+".mod", r.read("go.mod"))
	r.write(version+".zip", r.run(nil, "git", "archive", "--format=zip", "--prefix="+r.module+"@"+r.tag+"/", "HEAD"))
}

// link puts packages of a kind into a folder of their own, and returns the folder.
func (r *release) link(name, kind string) string {
	dir := filepath.Join(r.dir, name)
	packages, err := filepath.Glob(filepath.Join(r.dir, "*."+kind))
	r.fail(errors.Join(err, os.MkdirAll(dir, 0o755)))
	for _, path := range packages {
		r.fail(os.Link(path, filepath.Join(dir, filepath.Base(path))))
	}
	return dir
}

// apt makes a tree for apt, all in one folder: deb [signed-by=KEY] URL ./
func (r *release) apt() {
	packages := r.run(nil, "env", "-C", r.link("apt", "deb"), "apt-ftparchive", "packages", ".")
	r.write("apt/Packages", packages)
	// apt-ftparchive release has the present time, and sums that are of no use.
	r.write("apt/Release", fmt.Appendf(nil, "Origin: Bellhop\nLabel: Bellhop\nSuite: stable\nArchitectures: %s\nDate: %s\nSHA256:\n %x %d Packages\n",
		strings.Join(r.archs, " "), r.at.Format("Mon, 02 Jan 2006 15:04:05 UTC"), sha256.Sum256(packages), len(packages)))
}

// yum makes a tree for yum and dnf.
func (r *release) yum() {
	r.run(nil, "createrepo_c", "--quiet", "--revision", fmt.Sprint(r.at.Unix()), "--set-timestamp-to-revision", "--no-database", r.link("yum", "rpm"))
}

// sums writes and prints the sums of all files, as sha256sum does.
func (r *release) sums() {
	var sums bytes.Buffer
	r.fail(fs.WalkDir(os.DirFS(r.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(r.read(filepath.Join(r.dir, name))), name)
		}
		return err
	}))
	r.write("SHA256SUMS", sums.Bytes())
	if r.err == nil {
		fmt.Print(sums.String())
	}
}

// sign signs the sums, and what apt and dnf read first.
func (r *release) sign() {
	if r.key == "" {
		fmt.Println("unsigned; SIGN=KEYID signs the sums and the trees")
		return
	}
	sign := func(how, name, as string) {
		r.run(nil, "gpg", "--batch", "--yes", "--local-user", r.key, "--armor", "--output", filepath.Join(r.dir, as), how, filepath.Join(r.dir, name))
	}
	sign("--detach-sign", "SHA256SUMS", "SHA256SUMS.asc")
	sign("--detach-sign", "yum/repodata/repomd.xml", "yum/repodata/repomd.xml.asc")
	sign("--clearsign", "apt/Release", "apt/InRelease")
	r.run(nil, "gpg", "--armor", "--output", filepath.Join(r.dir, "bellhop.asc"), "--export", r.key)
}
