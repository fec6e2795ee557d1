package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licence is the name of a file that must go with what is copied.
var licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([._-].*)?$`)

// A component is a module that is part of a program, as CycloneDX has it.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func newComponent(kind, path, version string) component {
	url := "pkg:golang/" + path + "@" + version
	return component{kind, url, path, version, url}
}

func (r *release) noticesFile() string { return filepath.Join(r.dir, r.name("_NOTICES")) }

// notices writes the licences of all that is part of a program, and a list of that. Go's own library counts as a module.
func (r *release) notices() {
	dirs := map[string]string{"std " + r.output("go", "env", "GOVERSION"): r.output("go", "env", "GOROOT")}
	for _, arch := range r.archs {
		format := "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
		for line := range strings.Lines(string(r.run([]string{"GOOS=linux", "GOARCH=" + arch}, "go", "list", "-deps", "-f", format, "./cmd/bellhop"))) {
			end := strings.LastIndexByte(line, ' ')
			dirs[line[:end]] = strings.TrimSpace(line[end:])
		}
	}
	notices := []byte("The program bellhop contains these modules, under the licences that are printed with each.\n")
	var modules []component
	for _, module := range slices.Sorted(maps.Keys(dirs)) {
		name, version, _ := strings.Cut(module, " ")
		modules = append(modules, newComponent("library", name, version))
		notices = append(notices, r.licences(module, dirs[module])...)
	}
	r.write(r.name("_NOTICES"), notices)
	bill, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": modules,
		"metadata": map[string]any{"timestamp": r.time(), "component": newComponent("application", r.module, r.tag)},
	}, "", "  ")
	r.fail(err)
	r.write(r.name(".cdx.json"), append(bill, '\n'))
}

// licences returns the licences of a module, of which the files are in a folder.
func (r *release) licences(module, dir string) (text []byte) {
	files, err := os.ReadDir(dir)
	r.fail(err)
	for _, f := range files {
		if licence.MatchString(f.Name()) && !f.IsDir() {
			text = fmt.Appendf(text, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("=", 80), module, f.Name(), bytes.TrimSpace(r.read(filepath.Join(dir, f.Name()))))
		}
	}
	if text == nil {
		r.fail(fmt.Errorf("%s is part of the program, and there is no licence in %s", module, dir))
	}
	return text
}
