package notify_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestCertificateOfTheClient(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file.pem")
	storetest.Must(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	for _, test := range []struct {
		name string
		c    notify.Config
		want string
		kind error
	}{
		{"no key", notify.Config{URL: "rediss://host", CertFile: file}, "go together", notify.ErrInvalid},
		{"no certificate", notify.Config{URL: "rediss://host", KeyFile: file}, "go together", notify.ErrInvalid},
		{"no TLS", notify.Config{URL: "redis://host", CertFile: file, KeyFile: file}, "write rediss://", notify.ErrInvalid},
		{"not there", notify.Config{URL: "rediss://host", CertFile: file + ".not", KeyFile: file}, "read redis certificate and key", os.ErrNotExist},
		{"not one", notify.Config{URL: "rediss://host", CertFile: file, KeyFile: file}, "read redis certificate and key", nil},
	} {
		_, err := notify.Open(test.c)
		if err == nil || !strings.Contains(err.Error(), test.want) || test.kind != nil && !errors.Is(err, test.kind) {
			t.Errorf("%s: %v; want an error with %q", test.name, err, test.want)
		}
	}
}
