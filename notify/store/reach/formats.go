package reach

import (
	"context"
	"fmt"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// A Format is what a store may hold: its keys, and what stands in them. One that is newer only adds to the one before.
type Format struct {
	Number int
	Adds   string // what may be used from it on
}

// formats are those that this version works with, oldest first. Whoever adds to what a store may hold adds one: a process
// of an older version must not meet what it would misread.
var formats = []Format{
	{Number: 9},
	{Number: 10, Adds: "the outbox, groups, and branches"},
}

// next is what another format adds, for a test that builds a program of the next version: see its ldflags.
var next string

func init() {
	if next != "" {
		formats = append(formats, Format{Number: formats[len(formats)-1].Number + 1, Adds: next})
	}
	script.Define(fmt.Sprintf("local NEWEST_FORMAT = %d\n", Newest().Number)) // by which the library says what its version works with
}

// Newest returns the newest format that this version works with: a new store has it.
func Newest() Format { return formats[len(formats)-1] }

func (s *Redis) newest() Format { return s.formats[len(s.formats)-1] }

// knows reports whether calls may be of a format.
func (s *Redis) knows(format int) bool {
	return format >= s.formats[0].Number && format <= s.newest().Number
}

// Needs returns an ErrFormat while the shard has an older format than that which brings what is to be used: programs of an older version, which do
// not know it, may work beside. Whatever puts something new into the store asks first. Other errors: an ErrUnfit, or that of the connection.
func (s Shard) Needs(ctx context.Context, number int, what string) error {
	d, err := s.resolve(ctx)
	if err == nil {
		err = d.ensureFit(ctx) // which learns the format
	}
	if err == nil && d.format() < number { // another process may have raised it
		err = d.checkFormat(ctx)
	}
	if err != nil || d.format() >= number {
		return err
	}
	return fmt.Errorf("%w: %s needs format %d, and this one has %d, so that older programs can work beside; when none is left: bellhop upgrade",
		ErrFormat, what, number, d.format())
}

// Formats returns the formats that this version works with, in words.
func Formats() string { return spanOf(formats) }

func spanOf(formats []Format) string {
	if len(formats) == 1 {
		return fmt.Sprintf("format %d", formats[0].Number)
	}
	return fmt.Sprintf("formats %d to %d", formats[0].Number, formats[len(formats)-1].Number)
}
