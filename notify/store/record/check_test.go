package record_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// Topics and ids are checked by loops. Every text of up to four characters of each kind
// is accepted exactly if the expression that the loop stands for matches it.
func TestNames(t *testing.T) {
	t.Parallel()
	topic, id := regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(@[A-Za-z0-9_-]+)?$`), regexp.MustCompile(`^[A-Za-z0-9._~:-]+$`)
	texts, longer := []string{"\n", "a\n"}, []string{""}
	for range 4 {
		var next []string
		for _, text := range longer {
			for _, c := range []string{"a", "Z", "0", "_", "-", ".", "~", ":", "@", "[", "`", "{", "/", " ", "\x00", "é"} {
				next = append(next, text+c)
			}
		}
		texts, longer = slices.Concat(texts, next), next
	}
	for _, text := range texts {
		if err := record.CheckTopic(text); (err == nil) != topic.MatchString(text) {
			t.Errorf("topic %q: %v", text, err)
		}
		if err := record.CheckID(text); (err == nil) != (id.MatchString(text) && text != "." && text != "..") {
			t.Errorf("id %q: %v", text, err)
		}
	}
}
