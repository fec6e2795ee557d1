package main

import (
	"io"
	"log/slog"

	"github.com/bellhopd/bellhop/notify/outage"
)

// An output passes on what commands print. What cannot be passed on is thrown away, so that the
// exit code of a command decides about its message, and not the output of this process.
type output struct {
	to     io.Writer
	notice *outage.Notice
}

// newOutput returns an output to w; what names it in the log.
func newOutput(w io.Writer, what string, log *slog.Logger) output {
	return output{w, outage.New(log, slog.LevelError, "cannot pass on the "+what+" of the command; it is thrown away", "the "+what+" of the command is passed on again")}
}

// pass passes on p.
func (o output) pass(p []byte) {
	_, err := o.to.Write(p)
	o.notice.Note(err)
}
