package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

const clientsFolder = "daemon/httpapi/clients/"

// clients makes the packages for Node and for Python.
func (r *release) clients() {
	readme, licence := r.read(clientsFolder+"README.md"), r.read("LICENSE")
	about := bytes.Replace(r.read(clientsFolder+"node/package.json"), []byte(`"version": "0.0.0"`), fmt.Appendf(nil, `"version": %q`, r.version()), 1)
	r.write("bellhop-client-"+r.version()+".tgz", r.gzip(r.tar(
		entry{"package/package.json", 0o644, about},
		entry{"package/README.md", 0o644, readme},
		entry{"package/LICENSE", 0o644, licence},
		entry{"package/index.mjs", 0o644, r.read(clientsFolder + "node/index.mjs")},
		entry{"package/index.d.ts", 0o644, r.read(clientsFolder + "node/index.d.ts")},
	)))
	info := "bellhop_client-" + pythonVersion(r.version()) + ".dist-info/"
	r.write("bellhop_client-"+pythonVersion(r.version())+"-py3-none-any.whl", r.wheel(info,
		entry{"bellhop_client/__init__.py", 0o644, r.read(clientsFolder + "python/bellhop_client.py")},
		entry{"bellhop_client/py.typed", 0o644, nil},
		entry{info + "METADATA", 0o644, fmt.Appendf(nil, "Metadata-Version: 2.1\nName: bellhop-client\nVersion: %s\nSummary: Delayed and broadcast notifications\nLicense: Apache-2.0\n"+
			"Requires-Python: >=3.10\nDescription-Content-Type: text/markdown\n\n%s", pythonVersion(r.version()), readme)},
		entry{info + "LICENSE", 0o644, licence},
		entry{info + "WHEEL", 0o644, []byte("Wheel-Version: 1.0\nGenerator: bellhop\nRoot-Is-Purelib: true\nTag: py3-none-any\n")},
	))
}

// pythonVersion returns a version as Python writes it (https://packaging.python.org/en/latest/specifications/version-specifiers/): 0.2.0-rc.1 is 0.2.0rc1.
func pythonVersion(version string) string {
	number, before, _ := strings.Cut(version, "-")
	return number + strings.NewReplacer("alpha", "a", "beta", "b", ".", "", "-", "").Replace(before)
}

// wheel returns a package for Python (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
func (r *release) wheel(info string, entries ...entry) []byte {
	var record strings.Builder
	for _, e := range entries {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, e := range append(entries, entry{info + "RECORD", 0o644, []byte(record.String())}) {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.at}
		h.SetMode(0o644)
		f, err := w.CreateHeader(h)
		r.fail(err)
		if r.err == nil {
			_, err = f.Write(e.data)
			r.fail(err)
		}
	}
	r.fail(w.Close())
	return archive.Bytes()
}
