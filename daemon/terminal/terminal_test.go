package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/daemon/terminal"
)

// hostile are texts that a terminal does not only show.
var hostile = []string{
	"\x1b]0;title\a", "a\rb", "a\nb", "a\tb", "\x00", "\x7f", "\u009b31m", "\u202egpj.exe", "\u2066x\u2069", "a\u2028b", "\xff\xfe", "\xc2", "\U000e0041",
}

// isShown reports whether a terminal only shows a text.
func isShown(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

func TestPrintf(t *testing.T) {
	type name string
	for _, text := range hostile {
		var b strings.Builder
		err := terminal.Printf(&b, "%s %v %s %s %v %d", text, errors.New(text), bytes.NewBufferString(text), name(text), []string{text}, 7)
		if got := b.String(); err != nil || !isShown(got) || !strings.HasSuffix(got, " 7") {
			t.Errorf("%q is printed as %q, %v", text, got, err)
		}
	}
	var b strings.Builder
	_ = terminal.Printf(&b, "%s: %v, %.1f %t", `größe "7"`, fmt.Errorf("no\x1b %q", "x"), 1.5, true)
	if want := `größe "7": no\x1b "x", 1.5 true`; b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, größer": "plain text, größer", "": "", "a\nb": `"a\nb"`, "\u202e": `"\u202e"`, "\u009b": `"\u009b"`, "\xff": `"\xff"`,
	} {
		if got := terminal.Quote(text); got != want {
			t.Errorf("%q is quoted as %s, want %s", text, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	if got := terminal.Escape("say \"\x1b[2J\"\ntwice\xff"); got != `say "\x1b[2J"; twice\xff` {
		t.Errorf("got %s", got)
	}
}

// However JSON is split into writes, its meaning stays the same.
func TestJSON(t *testing.T) {
	for _, text := range append(hostile, "größe 🛎") {
		line, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := terminal.JSON(&b)
		for _, one := range append(line, '\n') {
			if n, err := w.Write([]byte{one}); n != 1 || err != nil {
				t.Fatalf("%d bytes are written, %v", n, err)
			}
		}
		var got, want map[string]string
		if err := errors.Join(json.Unmarshal(b.Bytes(), &got), json.Unmarshal(line, &want)); err != nil || got["text"] != want["text"] {
			t.Errorf("%q became %q, %v", text, got, err)
		}
		if shown, whole := strings.CutSuffix(b.String(), "\n"); !whole || !isShown(shown) {
			t.Errorf("%q is written as %q", text, shown)
		}
	}
}
