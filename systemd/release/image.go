package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// A descriptor says what a part of an image is, as OCI's Image Format Specification has it.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`

	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// user is the id of the user as whom the program runs in a container: nobody that the host has.
const user = 65532

// A layout collects the parts of an image.
type layout struct {
	*release
	files []entry
}

// add adds a part, which is bytes or will be JSON.
func (l *layout) add(kind string, part any) descriptor {
	data, is := part.([]byte)
	if !is {
		data = l.json(part)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	l.files = append(l.files, entry{"blobs/sha256/" + sum, 0o644, data})
	return descriptor{MediaType: "application/vnd.oci.image." + kind, Digest: "sha256:" + sum, Size: len(data)}
}

func (l *layout) json(of any) []byte {
	data, err := json.Marshal(of)
	l.fail(err)
	return data
}

// index returns an index of what has manifests.
func index(of ...descriptor) map[string]any {
	return map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": of}
}

// image makes an image of all architectures, which has the program, its licences, and the roots of certificates. There is no shell.
func (r *release) image() {
	l := layout{release: r}
	var manifests []descriptor
	for _, arch := range r.archs {
		manifests = append(manifests, l.of(arch))
	}
	all := l.add("index.v1+json", index(manifests...))
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version()}
	r.write(r.name("_oci.tar"), r.tar(append(l.files,
		entry{"index.json", 0o644, l.json(index(all))}, entry{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
	)...))
}

// of adds the image of an architecture.
func (l *layout) of(arch string) descriptor {
	files := l.tar(
		entry{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()}, entry{"tmp/", 0o1777, nil}, entry{"usr/bin/bellhop", 0o755, l.read(l.program(arch))},
		entry{"usr/share/doc/bellhop/LICENSE", 0o644, l.read("LICENSE")}, entry{"usr/share/doc/bellhop/NOTICES", 0o644, l.read(l.noticesFile())},
	)
	layer := l.add("layer.v1.tar+gzip", l.gzip(files))
	labels := map[string]string{
		"org.opencontainers.image.title": "bellhop", "org.opencontainers.image.version": l.version(), "org.opencontainers.image.revision": l.commit,
		"org.opencontainers.image.created": l.time(), "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://" + l.module,
	}
	config := l.add("config.v1+json", map[string]any{
		"created": l.time(), "architecture": arch, "os": "linux",
		"config": map[string]any{
			"User": fmt.Sprint(user, ":", user), "Entrypoint": []string{"/usr/bin/bellhop"}, "Cmd": []string{"serve"}, "WorkingDir": "/tmp",
			"ExposedPorts": map[string]any{"8420/tcp": struct{}{}}, "Labels": labels,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(files))}},
	})
	manifest := l.add("manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{layer}, "annotations": labels,
	})
	manifest.Platform = map[string]string{"architecture": arch, "os": "linux"}
	return manifest
}

// roots returns the certificates that Go trusts where a system has none, but for those that a file cannot say the limits of.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return text.Bytes()
}
