// Package daemon runs Bellhop's long-running process: it reads the
// configuration from the environment, starts what the configuration asks for,
// and stops it in stages.
//
//	config, err := daemon.Load(os.Environ())
//	...
//	err = daemon.Run(ctx, config, daemon.Options{Logger: daemon.NewLogger(config, os.Stderr)}) // until ctx ends
//
// A Redis that is away at the start, or goes away later, does not end the process.
package daemon
