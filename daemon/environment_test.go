package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestPageOfTheEnvironment(t *testing.T) {
	got, err := os.ReadFile("../systemd/bellhop.env")
	storetest.Must(t, err)
	storetest.Same(t, "systemd/bellhop.env differs from the settings; run make generate", daemon.EnvironmentFile(), string(got))
	for line := range strings.Lines(string(got)) {
		if len(line) > 100 {
			t.Errorf("a line is too long to be read: %s", line)
		}
	}
}

// The defaults in the file are those of settings that are left out.
func TestEnvironmentFileShowsDefaults(t *testing.T) {
	vars := make(map[string]string)
	for line := range strings.Lines(daemon.EnvironmentFile()) {
		name, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "#")), "=")
		if strings.HasPrefix(line, "#BELLHOP_") {
			vars[name] = value
		}
	}
	set(t, nil)
	want, err := daemon.Load(os.Environ())
	storetest.Must(t, err)
	set(t, vars)
	got, err := daemon.Load(os.Environ())
	storetest.Must(t, err)
	storetest.Same(t, "with each # removed", want.Settings(os.Environ()), got.Settings(os.Environ()), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Source" }, cmp.Ignore()))
}

func TestCredentials(t *testing.T) {
	set(t, nil)
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	c, err := daemon.Load(os.Environ())
	if err != nil || c.RedisPasswordFile != "" {
		t.Errorf("without a credential the file is %q, %v", c.RedisPasswordFile, err)
	}
	file := filepath.Join(dir, "bellhop.redis-password")
	storetest.Must(t, os.WriteFile(file, []byte("secret\n"), 0o400))
	if c, err = daemon.Load(os.Environ()); err != nil || c.RedisPasswordFile != file {
		t.Errorf("with a credential the file is %q, %v", c.RedisPasswordFile, err)
	}
	for _, s := range c.Settings(os.Environ()) {
		if (s.Source == "credential") != (s.Name == "BELLHOP_REDIS_PASSWORD_FILE") {
			t.Errorf("setting %+v has the wrong source", s)
		}
	}
	t.Setenv("BELLHOP_REDIS_PASSWORD_FILE", "")
	if c, err = daemon.Load(os.Environ()); err != nil || c.RedisPasswordFile != "" {
		t.Errorf("with a setting beside the credential the file is %q, %v", c.RedisPasswordFile, err)
	}
}
