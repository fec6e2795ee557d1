// Package vm tests Bellhop as a service of a machine. Its tests boot a systemd of
// their own (package sandbox) with the units, the environment file and the Debian
// package of the folder systemd, and do to them what operators and accidents do.
package vm
