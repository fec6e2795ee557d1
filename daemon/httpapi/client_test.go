package httpapi_test

import (
	"context"
	"embed"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

//go:embed all:testdata/client
var clientFiles embed.FS

// TestGeneratedClient generates a client from the served document, compiles a program
// that uses it, and runs that: so differences between document and server show.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	want(t, "node", "nodejs")
	want(t, "npm", "npm")
	store := storetest.Open(t)
	carry(t, store)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	dir := t.TempDir()
	source, err := fs.Sub(clientFiles, "testdata/client")
	if err == nil {
		err = os.CopyFS(dir, source)
	}
	storetest.Must(t, err)
	run(t, h, dir, "npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline", "--loglevel=error")
	run(t, h, dir, "node_modules/.bin/openapi-typescript", h.url("/v1/openapi.json"), "--output", "api.ts")
	run(t, h, dir, "node_modules/.bin/tsc", "--project", ".")
	if said := run(t, h, dir, "node", "built/client.js"); !strings.Contains(said, "all is well") {
		t.Errorf("it printed %s", said)
	}
}

// run runs a program in a folder, which must succeed, and returns its output.
func run(t testing.TB, h *host, dir, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if strings.Contains(program, "/") {
		program = filepath.Join(dir, program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), "BELLHOP_URL="+h.url(""))
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, said)
	}
	return string(said)
}
