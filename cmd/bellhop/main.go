// Bellhop delivers messages later: see its README, or run bellhop --help.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) }

// run runs one command in an environment and returns the exit code. The first SIGINT or
// SIGTERM stops it gracefully; the second ends it at once.
func run(args, env []string, in io.Reader, out, errOut io.Writer) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	a := &app{env: env, in: in, out: out, err: errOut}
	return a.run(args, signals)
}

// run is run with the signals that stop it.
func (a *app) run(args []string, signals <-chan os.Signal) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	code := make(chan int, 1)
	go func() { code <- a.execute(ctx, args) }()
	for {
		select {
		case c := <-code:
			return c
		case <-signals:
			if ctx.Err() != nil {
				a.running.Kill()
				return exitInterrupted
			}
			stop()
		}
	}
}

// execute runs the command in args.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra takes os.Args
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !a.began {
		err = wrong(err) // cobra rejected the call
	}
	return a.report(command, err)
}
