package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Progress is how far the work on a leased message is, as who extends the lease says.
type Progress struct {
	Percent int    // 0 to 100
	Note    string // printable UTF-8, at most MaxProgressNote bytes; empty: none
}

// MaxProgressNote is the length of the longest note of a [Progress], in bytes.
const MaxProgressNote = 200

// Check returns a joined Fault for each field that is wrong.
func (p Progress) Check() error {
	faults := []error{fault.Within("progress", "progress", int64(p.Percent), 0, 100)}
	switch {
	case len(p.Note) > MaxProgressNote:
		faults = append(faults, fault.New("note", "note: it has %d bytes; use at most %d", len(p.Note), MaxProgressNote))
	case !utf8.ValidString(p.Note) || strings.ContainsFunc(p.Note, func(r rune) bool { return !unicode.IsPrint(r) }):
		faults = append(faults, fault.New("note", "note %.100q: use printable UTF-8, on one line", p.Note))
	}
	return errors.Join(faults...)
}

// String returns the progress as people read it.
func (p Progress) String() string {
	if p.Note == "" {
		return fmt.Sprintf("%d %%", p.Percent)
	}
	return fmt.Sprintf("%d %%: %s", p.Percent, p.Note)
}

type progressKey struct{}

// WithProgress returns a context with which the extension of one lease says how far the work is:
// whoever inspects the message reads that until the lease ends, or says something else. It is left
// out while Redis is short of memory.
//
//	err := d.Extend(store.WithProgress(ctx, store.Progress{Percent: 40, Note: "page 2 of 5"}), 0)
//
// The extension fails with the Fault of a progress that is wrong, and changes nothing.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// noteSpace is written for each space of a note: behind one begins what else is noted of the message.
const noteSpace = "\x1f"

// progressOf returns the progress in a context as scripts get it; nothing if there is none. The error is that of Check.
func progressOf(ctx context.Context) ([]any, error) {
	p, ok := ctx.Value(progressKey{}).(Progress)
	if !ok {
		return nil, nil
	}
	return []any{strconv.Itoa(p.Percent) + "," + strings.ReplaceAll(p.Note, " ", noteSpace)}, p.Check()
}

// progressIn reads PERCENT,USED,DIGIT,NOTE: a progress, how many attempts were used up then, and the
// last digit of the receipt, by which the lease is known. It returns nil for that of another lease,
// and for what is foreign.
func progressIn(text string, of Inspected) *Progress {
	parts := strings.SplitN(text, ",", 4)
	if len(parts) < 4 || of.State != record.Leased || parts[1] != strconv.Itoa(of.Attempts) || parts[2] != strconv.FormatInt(of.At.UnixMicro()%10, 10) {
		return nil
	}
	percent, err := strconv.Atoi(parts[0])
	p := Progress{Percent: percent, Note: strings.ReplaceAll(parts[3], noteSpace, " ")}
	if err != nil || p.Check() != nil {
		return nil
	}
	return &p
}
