package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong usage or configuration: nothing was done
	exitWarned = 3 // of doctor --check: nothing failed, but there are warnings
	exitDead   = 4 // of inspect --wait: the message is dead
	exitGone   = 5 // of inspect --wait: it ended, and nothing is kept of it
	exitEarly  = 6 // of inspect --wait: it has not ended yet

	exitInterrupted = 130 // a second signal ended the run; a shell's code for SIGINT
)

// wrongUsage is an error of the call.
type wrongUsage struct{ error }

func (w wrongUsage) Unwrap() error { return w.error }

// wrong marks an error as an error of the call.
func wrong(err error) error { return wrongUsage{err} }

// misused returns the Fault of an argument or a flag that is missing or does not
// belong there.
func misused(field, format string, args ...any) error {
	return &notify.Fault{Field: strings.ReplaceAll(field, "-", "_"), Err: fmt.Errorf(format, args...)}
}

// errReported is a failure that was reported already.
var errReported = errors.New("failed")

// errWarned stands for warnings that were reported already.
var errWarned = errors.New("warned")

// An endedAs is how a message ended that was waited for. It was reported already.
type endedAs struct{ code int }

// Error returns how the message ended.
func (e endedAs) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// report prints an error, one line for each of its faults, and returns the exit code.
func (a *app) report(command *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errReported) {
		return exitFailed
	}
	if errors.Is(err, errWarned) {
		return exitWarned
	}
	var awaited endedAs
	if errors.As(err, &awaited) {
		return awaited.code
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
	}
	if what, guesses, ok := strings.Cut(text, "\n\nDid you mean this?\n"); ok { // cobra's suggestions
		text = what + "; did you mean " + strings.Join(strings.Fields(guesses), " or ") + "?"
	}
	first, rest, _ := strings.Cut(text, "\n")
	for line := range strings.Lines(a.withRemedy(first, err) + "\n" + rest) {
		if line = strings.TrimSpace(line); line != "" {
			a.complain(line)
		}
	}
	switch {
	case errors.As(err, &wrongUsage{}):
		a.complain(fmt.Sprintf("run '%s --help'", command.CommandPath()))
		return exitUsage
	case errors.Is(err, notify.ErrInvalid), errors.Is(err, errConfig), errors.As(err, new(*reach.OtherShardsError)):
		return exitUsage
	}
	return exitFailed
}

// complain prints a line about a failure.
func (a *app) complain(line string) {
	terminal.Printf(a.err, "%sbellhop: %s\n", daemon.Priority(a.err, slog.LevelError), terminal.Escape(line))
}

// withRemedy adds the remedy of an error of the connection to Redis. Somebody at a terminal without a Redis may want to try Bellhop.
func (a *app) withRemedy(line string, err error) string {
	var op *net.OpError
	if errors.Is(err, context.Canceled) || errors.As(err, &op) && op.Op == "listen" { // not to Redis
		return line
	}
	if errors.As(err, new(*store.MissingError)) {
		return line + "; see bellhop shards"
	}
	if remedy := doctor.Remedy(err); remedy != "" {
		if errors.As(err, &op) && errors.Is(err, syscall.ECONNREFUSED) && isLoopback(op.Addr) && text.IsTerminal(a.err) && !database.IsError(err) {
			remedy += "; to try Bellhop without one: bellhop dev"
		}
		return strings.TrimSuffix(line, ".") + "; " + remedy
	}
	return line
}

func isLoopback(addr net.Addr) bool {
	tcp, is := addr.(*net.TCPAddr)
	return is && tcp.IP.IsLoopback()
}
