package subscribers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

func TestBookmarkOfOnePosition(t *testing.T) {
	t.Parallel()
	if b := subscribers.At(1732128000123456); b != "1732128000123-456" || b.Position() != 1732128000123456 {
		t.Errorf("%q is at %v", b, b.Position())
	}
}

func TestBookmarksThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "1-", "1-1000", "8.", "8.AAAA", "1.AAA", "257.AAAA", "-2.AAA", "02.CgAA", "2.CgAAAA", "2.CgE", "2.CgEB", "2.CgEC", "2.CgAA=", "2.igAA\n",
		"2." + strings.Repeat("A", 4096),
	} {
		if from, err := subscribers.ParseFrom(text); !errors.Is(err, notify.ErrInvalid) || subscribers.Bookmark(text).Position() != 0 {
			t.Errorf("%.100q is %v, %v", text, from, err)
		}
	}
	if _, err := subscribers.ParseFrom("2.CgAB"); err != nil { // 10, and 1 behind it
		t.Error(err)
	}
}

// What is read as a bookmark is written like that, and says where to begin.
func FuzzBookmark(f *testing.F) {
	for _, seed := range []string{"", "0-0", "1732128000123-456", "2.CgAB", "4.CgABAQo", "8.gIDQmLbPhwMAAAAAAAAAAA"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := subscribers.Bookmark(text)
		from, err := subscribers.ParseFrom(text)
		if err == nil && from == subscribers.After(b) {
			if b.Position() < 0 {
				t.Errorf("%q is at %v", text, b.Position())
			}
			return
		}
		if b.Position() != 0 || err != nil && !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q is at %v; from %v, %v", text, b.Position(), from, err)
		}
	})
}
