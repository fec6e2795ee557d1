package daemon_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// journal returns a file that the environment declares to be the connection to the journal.
func journal(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	storetest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	storetest.Must(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino))
	return f
}

// logged returns what a logger wrote to a file.
func logged(t *testing.T, f *os.File, format string) string {
	t.Helper()
	log := daemon.NewLogger(daemon.Config{LogLevel: slog.LevelDebug, LogFormat: format}, f)
	log.Debug("one")
	log.Info("two", "body", "a\nb", "time", time.Unix(0, 0).UTC())
	log.With("topic", "t").WithGroup("g").Warn("three\nlines", "n", 1)
	log.Error("four")
	text, err := os.ReadFile(f.Name())
	storetest.Must(t, err)
	return string(text)
}

func TestJournalPriorities(t *testing.T) {
	for format, want := range map[string]string{
		"text": "<7>level=DEBUG msg=one\n" +
			"<6>level=INFO msg=two body=\"a\\nb\" time=1970-01-01T00:00:00.000Z\n" +
			"<4>level=WARN msg=\"three\\nlines\" topic=t g.n=1\n" +
			"<3>level=ERROR msg=four\n",
		"json": `<7>{"level":"DEBUG","msg":"one"}` + "\n" +
			`<6>{"level":"INFO","msg":"two","body":"a\nb","time":"1970-01-01T00:00:00Z"}` + "\n" +
			`<4>{"level":"WARN","msg":"three\nlines","topic":"t","g":{"n":1}}` + "\n" +
			`<3>{"level":"ERROR","msg":"four"}` + "\n",
	} {
		f := journal(t)
		if diff := cmp.Diff(want, logged(t, f, format)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
		if got := daemon.Priority(f, slog.LevelError); got != "<3>" {
			t.Errorf("the priority of an error is %q", got)
		}
	}
}

func TestNoPrioritiesElsewhere(t *testing.T) {
	there := journal(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "redirected"))
	storetest.Must(t, err)
	defer f.Close()
	for line := range strings.Lines(logged(t, f, "text")) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("the line has no time in front: %s", line)
		}
	}
	if got := daemon.Priority(f, slog.LevelError); got != "" {
		t.Errorf("the priority of an error is %q", got)
	}
	if quiet := daemon.NewLogger(daemon.Config{LogLevel: slog.LevelError}, there); quiet.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("warnings are logged, and only errors should be")
	}
}
