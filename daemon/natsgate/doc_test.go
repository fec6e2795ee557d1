package natsgate_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/calls"
)

//go:embed doc.go
var documentation string

// The package comment names the subject of each call.
func TestSubjectsAreWritten(t *testing.T) {
	t.Parallel()
	rests := map[calls.Subjects][]string{calls.Plain: {" "}, calls.ByTopic: {".TOPIC "}, calls.ByTopicOrAll: {".TOPIC ", "-all "}}
	for _, c := range calls.Table() {
		for _, rest := range rests[c.NATS] {
			if want := "//\tbellhop." + c.Subject() + rest; !strings.Contains(documentation, want) {
				t.Errorf("the comment lacks %q", want)
			}
		}
	}
}
