// Package vm tests Bellhop as a service of a machine. Its tests boot a systemd of
// their own (package sandbox), install the Debian package with the units and the
// environment file, and then act as operators and accidents do.
package vm
