package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

// version and commit are set by the linker of a release, with -ldflags "-X main.version=v1.2.3 -X main.commit=HASH".
var version, commit string

// build is what this program was built from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Formats  string `json:"formats"` // of the stores that it works with
}

func thisBuild() build {
	b := build{Version: version, Commit: commit, Formats: reach.Formats(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == develVersion {
		b.Version = cmp.Or(buildID(), develVersion)
	}
	return b
}

// develVersion is what Go calls a build of which it does not know the commit.
const develVersion = "(devel)"

const shownOfHash = 12

// buildID returns devel- and the hash of what this program is, by which it is told from other builds. It is empty where
// the program has none, as on systems without ELF.
func buildID() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	program, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer program.Close()
	note := program.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	id, err := note.Data()
	hash := id[bytes.LastIndexByte(id, '/')+1:] // of the content stands last
	if err != nil || len(hash) < shownOfHash {
		return ""
	}
	return "devel-" + string(hash[:shownOfHash])
}

func (a *app) versionCommand() *cobra.Command {
	return a.command(a.jsonFlag(&cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: `  bellhop version`,
		Args:    takes(),
	}), func(context.Context, *cobra.Command, []string) error {
		if a.json {
			return a.printJSON(thisBuild())
		}
		fmt.Fprintln(a.out, thisBuild())
		return nil
	})
}

// String returns the build on one line.
func (b build) String() string {
	line := "bellhop " + cmp.Or(b.Version, "unknown") + " " + b.Go + " " + b.Platform
	if b.Commit != "" {
		line += " commit " + b.Commit
	}
	if b.Modified {
		line += " modified"
	}
	return line + ", stores of " + b.Formats
}
