//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellhopd/bellhop/notify/regular"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"file": "text\n", "empty": "", "large": strings.Repeat("x", regular.MaxSize+1)} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("file", path("link")), syscall.Mkfifo(path("pipe"), 0o600), os.Symlink("pipe", path("link to pipe"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"file": "text\n", "link": "text\n", "empty": ""} {
		if got, err := regular.Read(path(name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		path("pipe"): "it is not a regular file", path("link to pipe"): "it is not a regular file", dir: "it is not a regular file", os.DevNull: "it is not a regular file",
		path("large"): "it has more than 16777216 bytes", path("none"): "no such file",
	} {
		_, err := regular.Read(name)
		var at *fs.PathError
		if !errors.As(err, &at) || at.Path != name || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
